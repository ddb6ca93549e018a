"""Parts of the Kafka adapter that need no broker."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError

from limpet.bus import DeniedError, Message, OversizedError, Position, UnknownTopicError
from limpet.bus.kafka import KafkaSettings, TopicSpec, specs_of
from limpet.bus.kafka.delivery import Delivery, Outgoing
from limpet.bus.kafka.errors import of_publish, of_request
from limpet.bus.kafka.inbox import Inbox
from limpet.bus.kafka.settings import member_config, producer_config, reader_config
from limpet.bus.port import BusUnavailableError
from limpet.clock import SystemClock
from limpet.model.errors import CannotGoOn, Indefinite, UsageError

SETTINGS = KafkaSettings(bootstrap="127.0.0.1:1")


def messages(*offsets: int, size: int = 1) -> list[Message]:
    """As fetched."""
    return [Message(Position(0, 0, offset), b"x" * size) for offset in offsets]


# -- settings ----------------------------------------------------------------------------------------------------------
def test_what_guarantees_rest_on_is_no_setting() -> None:
    """An option that would change acks, idempotence, commits or resets is refused by name."""
    for key in ("acks", "enable.idempotence", "enable.auto.commit", "auto.offset.reset", "group.id", "partitioner"):
        with pytest.raises(UsageError, match=key):
            KafkaSettings(bootstrap="x:1", options={key: "0"})
    secured = KafkaSettings(bootstrap="x:1", options={"security.protocol": "SSL", "ssl.ca.location": "ca.pem"})
    assert producer_config(secured)["security.protocol"] == "SSL"


def test_the_driver_is_told_to_be_durable_and_explicit() -> None:
    """All replicas acknowledge, nothing is created, committed or skipped by itself, sockets give up after 3 s."""
    producer, reader = producer_config(SETTINGS), reader_config(SETTINGS, "links.discovered")
    assert (producer["acks"], producer["enable.idempotence"]) == ("all", True)
    assert (reader["auto.offset.reset"], reader["enable.auto.commit"]) == ("error", False)
    for config in (producer, reader):
        assert config["allow.auto.create.topics"] is False
        assert config["socket.timeout.ms"] == 3000


def test_each_group_protocol_gets_what_it_takes() -> None:
    """The newer protocol refuses the session and the assignor of the older one."""
    newer = member_config(SETTINGS, "t")
    assert newer["group.protocol"] == "consumer"
    assert not {"session.timeout.ms", "partition.assignment.strategy"} & set(newer)
    older = member_config(KafkaSettings(bootstrap="x:1", group_protocol="classic"), "t")
    assert older["partition.assignment.strategy"] == "cooperative-sticky"


def test_a_topic_that_cannot_keep_its_promise_is_refused() -> None:
    """More replicas in sync than there are replicas."""
    with pytest.raises(UsageError, match="3"):
        TopicSpec(name="a", replication=2, min_insync=3)
    assert [spec.name for spec in specs_of(TopicSpec(name=""), topics=["a"])] == ["health", "a", "a.retry", "a.dead"]


# -- errors ------------------------------------------------------------------------------------------------------------
def test_a_failed_delivery_is_unknown_unless_it_was_refused() -> None:
    """Timeouts and lost connections say nothing about what the broker did."""
    for code in (KafkaError._MSG_TIMED_OUT, KafkaError._TRANSPORT, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND):
        assert isinstance(of_publish(KafkaError(code), "publish"), Indefinite)
    for code, kind in (
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, DeniedError),
        (KafkaError.MSG_SIZE_TOO_LARGE, OversizedError),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, UnknownTopicError),
    ):
        assert isinstance(of_publish(KafkaError(code), "publish"), kind)


def test_a_question_without_an_answer_changed_nothing() -> None:
    """Definite, and worth asking again; a client that failed for good cannot go on."""
    assert isinstance(of_request(KafkaError(KafkaError._TIMED_OUT), "ask"), BusUnavailableError)
    assert isinstance(of_request(KafkaError(KafkaError._FATAL, "x", True), "ask"), CannotGoOn)


# -- the inbox ---------------------------------------------------------------------------------------------------------
def test_a_full_inbox_pauses_once_and_resumes_once() -> None:
    """By messages; it asks for more when half of it is handed out."""
    inbox = Inbox(0, messages_max=4, bytes_max=1000)
    assert not inbox.put(messages(0, 1, 2))
    assert inbox.put(messages(3))
    assert not inbox.put(messages(4))
    assert inbox.take(2) == (messages(0, 1), False)
    assert inbox.take(2) == (messages(2, 3), True)
    assert inbox.take(2) == (messages(4), False)


def test_an_inbox_is_bounded_in_bytes_too() -> None:
    """Few large messages pause as well."""
    inbox = Inbox(0, messages_max=1000, bytes_max=100)
    assert not inbox.put(messages(0, size=60))
    assert inbox.put(messages(1, size=60))
    assert inbox.take(1)[1] is False
    assert inbox.take(1)[1] is True


def test_an_inbox_takes_contiguous_offsets_only() -> None:
    """A repetition is dropped; behind a hole nothing is taken, and the hole is a fault."""
    inbox = Inbox(5, messages_max=100, bytes_max=1000)
    inbox.put(messages(3, 4, 5))
    inbox.put(messages(5, 6))
    assert not inbox.missing
    inbox.put(messages(8, 9))
    inbox.put(messages(7))
    assert inbox.missing
    assert inbox.take(10)[0] == messages(5, 6)
    assert inbox.next == 7


# -- delivery ----------------------------------------------------------------------------------------------------------
class FailingDriver:
    """A driver's producer whose messages end with `errors`, in turn; a full queue every third time."""

    def __init__(self, config: dict[str, Any], errors: list[KafkaError | None]) -> None:
        self._errors = errors
        self._told: list[Callable[[Any, Any], None]] = []
        self._calls = 0
        self.config = config

    def produce(self, topic: str, value: bytes, *, partition: int, headers: Any, on_delivery: Any) -> None:
        del topic, value, partition, headers
        self._calls += 1
        if self._calls % 3 == 0:
            raise BufferError
        self._told.append(on_delivery)

    def poll(self, timeout: float) -> int:
        time.sleep(timeout / 100)
        while self._told:
            self._told.pop(0)(self._errors.pop(0), AtOffset(7))
        return 0

    def flush(self, timeout: float) -> int:
        return self.poll(timeout)

    def purge(self) -> None:
        """Nothing is on its way."""


class AtOffset:
    """A delivered message."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def offset(self) -> int:
        return self._offset


def test_every_message_of_a_publish_is_accounted_for() -> None:
    """Offsets and errors come back by index, also through a full queue; a fatal error ends the client."""
    timed_out = KafkaError(KafkaError._MSG_TIMED_OUT)
    fatal = KafkaError(KafkaError._FATAL, "lost count", True)
    errors = [None, timed_out, None, None, fatal]

    async def main() -> None:
        delivery = Delivery({}, SystemClock(), make=lambda config: FailingDriver(config, errors))
        receipts = await delivery.send("t", [Outgoing(0, b"a")] * 4)
        assert receipts.offsets == [7, -1, 7, 7]
        assert receipts.errors == {1: timed_out}
        assert delivery.failed is None
        assert (await delivery.send("t", [Outgoing(0, b"a")])).errors == {0: fatal}
        assert delivery.failed == fatal
        assert delivery.oldest_seconds() == 0
        await delivery.close()

    asyncio.run(main())
