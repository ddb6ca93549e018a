"""Orders as stored, and what a governor makes of them."""

import pytest

from limpet.config.settings import YEAR_SECONDS
from limpet.politeness.governor import STOPPED_SECONDS
from limpet.politeness.orders import (
    BLOCKED,
    BLOCKED_URLS,
    HOSTS_MAX,
    NO_ORDER,
    ORDERS_BYTES_MAX,
    PAUSED,
    HostOrder,
    changed_hosts,
    decode_orders,
    encode_orders,
)
from limpet.urlstore import HostRow
from unit.politeness.hosts import make, ready

EVERYTHING = HostOrder(paused_us=5, blocked_us=7, gap_seconds=2.5)


def test_orders_come_back_as_they_were_stored() -> None:
    """Hosts of which nothing is ordered leave no trace."""
    orders = {"a.example": HostOrder(paused_us=5), "b.example": EVERYTHING}
    assert decode_orders(encode_orders(orders | {"c.example": NO_ORDER})) == orders
    assert decode_orders(encode_orders({})) == {}


def test_what_stops_a_host() -> None:
    """A block is more than a pause; a gap stops nothing."""
    assert HostOrder(paused_us=1).stopped == PAUSED
    assert EVERYTHING.stopped == BLOCKED
    assert HostOrder(gap_seconds=9.0).stopped == ""


def test_parts_of_a_host_are_blocked_by_how_their_paths_begin() -> None:
    """Whatever scheme and port; query included. Nothing else of the host is stopped, and a block of all is more."""
    order = HostOrder(blocked_paths={"/private/": 5, "/page?id=": 6})
    for url in ("http://a.example/private/x", "https://a.example:8443/private/", "http://a.example/page?id=7"):
        assert order.blocks(url)
    for url in (
        "http://a.example/private",
        "http://a.example/x/private/",
        "http://a.example/page",
        "http://a.example/",
    ):
        assert not order.blocks(url)
        assert EVERYTHING.blocks(url)
    assert (order.stopped, order.told) == ("", BLOCKED_URLS)
    assert not NO_ORDER.blocks("http://a.example/private/")


def test_a_file_says_whether_it_has_orders_for_parts() -> None:
    """An earlier Limpet knows version 1: it reads what it knows, and refuses what it would not obey."""
    parts = {"a.example": HostOrder(blocked_paths={"/private/": 5})}
    assert decode_orders(encode_orders(parts)) == parts
    assert b'"version": 2' in encode_orders(parts)
    assert b'"version": 1' in encode_orders({"a.example": EVERYTHING})


WHOLE = encode_orders({"a.example": EVERYTHING})
HOSTILE = {
    "empty": b"",
    "torn": WHOLE[: len(WHOLE) // 2],
    "zeros": bytes(len(WHOLE)),
    "not JSON": b"pause a.example",
    "a list": b"[]",
    "not UTF-8": b'{"version":1,"hosts":{"\xff":{}}}',
    "another version": b'{"version":3,"hosts":{}}',
    "no version": b'{"hosts":{}}',
    "an unknown order": b'{"version":1,"hosts":{"a":{"hurry":1}}}',
    "an unknown field": b'{"version":1,"hosts":{},"more":1}',
    "a negative gap": b'{"version":1,"hosts":{"a":{"gap_seconds":-1}}}',
    "an endless gap": b'{"version":1,"hosts":{"a":{"gap_seconds":1e999}}}',
    "a gap of two years": b'{"version":1,"hosts":{"a":{"gap_seconds":%d}}}' % (2 * YEAR_SECONDS),
    "no number": b'{"version":1,"hosts":{"a":{"gap_seconds":NaN}}}',
    "a moment beyond time": b'{"version":1,"hosts":{"a":{"paused_us":99999999999999999999}}}',
    "no name": b'{"version":1,"hosts":{"":{}}}',
    "too many hosts": b'{"version":1,"hosts":{' + b",".join(b'"h%d":{}' % n for n in range(HOSTS_MAX + 1)) + b"}}",
    "too deep": b"[" * 100_000,
    "too large": b" " * (ORDERS_BYTES_MAX + 1),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_is_no_orders_is_refused(name: str) -> None:
    """Whatever lies there, the answer is a ValueError, never an order that nobody gave."""
    with pytest.raises(ValueError, match=r"."):
        decode_orders(HOSTILE[name])


def test_changed_hosts() -> None:
    """Given, taken back and replaced all count; equal orders do not."""
    before = {"a": HostOrder(paused_us=1), "b": HostOrder(paused_us=1), "c": HostOrder(gap_seconds=1.0)}
    now = {"a": HostOrder(paused_us=1), "c": HostOrder(gap_seconds=2.0), "d": EVERYTHING}
    assert changed_hosts(before, now) == {"b", "c", "d"}


# -- the governor ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("order", [HostOrder(paused_us=1), HostOrder(blocked_us=1), EVERYTHING])
def test_a_stopped_host_gets_no_permit_until_it_goes_on(order: HostOrder) -> None:
    """However long it waited; the others go on as before."""
    clock, governor = make()
    state, other = ready(governor, clock, "a.example"), ready(governor, clock, "b.example")
    assert governor.obey({"a.example": order}) == {"a.example"}
    clock.pass_seconds(86_400)
    assert governor.permit(state) is None
    assert governor.ready_in(state) == STOPPED_SECONDS
    assert governor.stopped(state) == order.stopped
    assert governor.permit(other) is not None
    assert governor.obey({}) == {"a.example"}
    assert governor.permit(state) is not None


def test_slow_lengthens_the_gap_and_never_shortens_it() -> None:
    """The largest wish is in force, for the gap that is running too; taking it back leaves what the site asks for."""
    clock, governor = make()
    state = ready(governor, clock, "a.example")
    permit = governor.permit(state)
    assert permit is not None
    governor.end(permit, 1_000)
    assert governor.ready_in(state) == pytest.approx(1.0)
    governor.obey({"a.example": HostOrder(gap_seconds=0.01)})
    assert governor.ready_in(state) == pytest.approx(1.0)
    governor.obey({"a.example": HostOrder(gap_seconds=30.0)})
    assert governor.ready_in(state) == pytest.approx(30.0)
    assert governor.gaps(state)[0] == ("operator", 30.0)
    clock.pass_seconds(0.5)
    governor.obey({})
    assert governor.ready_in(state) == pytest.approx(0.5)


def test_orders_are_in_force_before_a_host_is_met() -> None:
    """Whoever starts reads the orders first."""
    clock, governor = make()
    governor.obey({"a.example": HostOrder(paused_us=1), "b.example": HostOrder(gap_seconds=9.0)})
    clock.pass_seconds(5)
    assert governor.permit(governor.meet(HostRow(host="a.example"))) is None
    slow = governor.meet(HostRow(host="b.example"))
    assert governor.ready_in(slow) == pytest.approx(4.0)


def test_taking_an_order_back_takes_back_nothing_of_the_site() -> None:
    """Retry-After, crawl-delay and the gap stay as they were."""
    clock, governor = make()
    state = ready(governor, clock, "a.example")
    governor.set_crawl_delay(state, 7.0)
    governor.wait_until(state, clock.wall_us() + 60_000_000, "http_429")
    governor.obey({"a.example": EVERYTHING})
    governor.obey({})
    assert governor.gap_seconds(state) == 7.0
    assert governor.ready_in(state) == pytest.approx(60.0)


def test_an_explanation_names_the_order() -> None:
    """With everything else that holds the host back."""
    clock, governor = make()
    ready(governor, clock, "a.example")
    governor.obey({"a.example": EVERYTHING})
    reasons = dict(governor.explain("a.example"))
    assert reasons["operator"] == 2.5
    assert BLOCKED in reasons
