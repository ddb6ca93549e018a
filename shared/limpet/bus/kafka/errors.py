"""What the driver's errors mean to a caller; the driver's exceptions stop here, their text is kept."""

from typing import Final

from confluent_kafka import KafkaError, KafkaException

from limpet.bus.port import BusUnavailableError, DeniedError, OversizedError, UnknownTopicError
from limpet.model.errors import CannotGoOn, Indefinite, LimpetError

UNKNOWN: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - the driver's public names of local errors begin so
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    }
)
DENIED: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError._AUTHENTICATION,  # noqa: SLF001
    }
)
OVERSIZED: Final = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
REBALANCING: Final = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError._ASSIGNMENT_LOST,  # noqa: SLF001
    }
)
"""A commit that met a rebalance: expected. It counts if the partition is still ours afterwards and it is repeated."""


def refusal(error: KafkaError, what: str) -> LimpetError | None:
    """The definite error for what the cluster will refuse again, or None. `what` says who wanted what."""
    code = error.code()
    if code in UNKNOWN:
        return UnknownTopicError(f"{what}: there is no such topic or partition ({error.name()})")
    if code in DENIED:
        return DeniedError(f"{what}: the cluster denies it ({error.name()}); grant it or change the credentials")
    if code in OVERSIZED:
        return OversizedError(f"{what}: larger than the topic takes ({error.name()})")
    return None


def of_publish(error: KafkaError, what: str) -> LimpetError:
    """A delivery that failed: refused for good, or unknown."""
    return refusal(error, what) or Indefinite(
        f"{what}: it may or may not be in the log ({error.name()}: {error.str()})"
    )


def of_request(error: KafkaError, what: str) -> LimpetError:
    """A question that got no answer changed nothing."""
    if error.fatal():
        return CannotGoOn(f"{what}: {error.name()}: {error.str()}")
    return refusal(error, what) or BusUnavailableError(f"{what}: {error.name()}: {error.str()}")


def error_of(exception: KafkaException) -> KafkaError:
    """The driver's error inside its exception."""
    found = exception.args[0]
    return found if isinstance(found, KafkaError) else KafkaError(KafkaError._FAIL, str(exception))  # noqa: SLF001
