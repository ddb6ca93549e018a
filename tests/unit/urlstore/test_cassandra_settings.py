"""Settings of the URL store on Cassandra."""

import msgspec
import pytest

from limpet.model.errors import UsageError
from limpet.urlstore.cassandra import CassandraSettings


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"contact_points": ()}, "contact_points"),
        ({"keyspace": "Drop it"}, "keyspace"),
        ({"username": "me"}, "password_file"),
        ({"datacenter": "a'b"}, "datacenter"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(changes: dict[str, object], said: str) -> None:
    """The message names the key."""
    with pytest.raises(UsageError, match=said):
        msgspec.convert({"contact_points": ["a"]} | changes, CassandraSettings, strict=False)


def test_bounds_of_numbers_are_checked_with_the_rest() -> None:
    """A lag of nothing, a slot of a second, or more requests than a connection has room for: none is taken."""
    for changes in ({"lag_seconds": 0}, {"slot_seconds": 1}, {"in_flight_max": 20_000}, {"port": 0}, {"lag": 1}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"contact_points": ["a"]} | changes, CassandraSettings)


def test_durable_times_follow_from_the_settings() -> None:
    """In microseconds."""
    settings = CassandraSettings(contact_points=("a",), lag_seconds=1.5, slot_seconds=20)
    assert (settings.lag_us, settings.slot_us) == (1_500_000, 20_000_000)
