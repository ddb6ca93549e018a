"""A cluster of brokers in memory, which the Kafka driver plays; and messages to try its adapter with."""

from types import TracebackType
from typing import Self

from confluent_kafka import Producer


class KafkaDouble:
    """librdkafka's mock cluster. It speaks the protocol and keeps offsets; it is not a broker.

    It forgets everything in the end, creates topics only through `create`, and cannot delete, configure or deny.
    """

    def __init__(self, *, brokers: int = 3) -> None:
        self._host = Producer({"bootstrap.servers": "double", "test.mock.num.brokers": brokers, "log_level": 0})
        found = self._host.list_topics(timeout=10).brokers.values()
        self.bootstrap = ",".join(f"{broker.host}:{broker.port}" for broker in found)

    def create(self, topic: str) -> int:
        """Make a topic; its number of partitions, which the double chooses."""
        return len(self._host.list_topics(topic, timeout=10).topics[topic].partitions)

    def close(self) -> None:
        """End the brokers."""
        self._host.flush(0)
        del self._host

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
