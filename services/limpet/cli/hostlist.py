"""The listing of `limpet hosts`, and one host in full."""

from typing import Any, Final

import msgspec

from limpet.cli.printing import print_json, print_lines
from limpet.cli.units import show_count, show_duration
from limpet.clock import Clock, SystemClock
from limpet.config import Settings
from limpet.embedded.folder import Folder
from limpet.embedded.hostsview import HostNow, HostsView
from limpet.embedded.orderbook import OrderBook
from limpet.embedded.views import ShardViews
from limpet.politeness.orders import BLOCKED, OPERATOR_SLOW, PAUSED
from limpet.robots import ODDITIES

EXIT_DONE: Final = 0
_ORDERS: Final = {PAUSED: "paused", BLOCKED: "blocked", OPERATOR_SLOW: "slowed"}


def list_hosts(folder: Folder, only: str | None, *, as_json: bool) -> int:
    """Print every host, or one."""
    clock = SystemClock()
    orders = OrderBook(folder).look()
    settings = folder.load_settings() or Settings()
    with ShardViews(folder) as views:
        found = HostsView(folder, views, orders, settings, clock).hosts(only)
    if as_json:
        printed = [_as_json(host, whole=only is not None) for host in found]
        print_json(printed[0] if only is not None else printed)
    elif only is not None:
        print_lines(_in_full(found[0], clock))
    else:
        print_lines(["host\tqueued\tgap\twhy\tnext\twhy\tmarks", *(_line(host, clock) for host in found)])
    return EXIT_DONE


def _line(host: HostNow, clock: Clock) -> str:
    marks = [_ORDERS[host.order]] if host.order else []
    marks += ["slow"] if host.slow else []
    marks += [f"robots_{oddity}" for oddity in host.robots_oddities]
    fields = [host.host, f"{host.queued:,}", _seconds(host.gap_seconds), host.gap_reason]
    return "\t".join([*fields, _when(host, clock), host.next_reason or "-", ",".join(marks) or "-"])


def _when(host: HostNow, clock: Clock) -> str:
    if host.next_us is None:
        return "when resumed"
    left = (host.next_us - clock.wall_us()) / 1e6
    return f"in {show_duration(left)}" if left > 0 else "now"


def _seconds(seconds: float) -> str:
    return show_duration(seconds) if seconds >= 60 else f"{seconds:.3g} s"


def _in_full(host: HostNow, clock: Clock) -> list[str]:
    lines = [
        host.host,
        f"  URLs      {host.urls:,} in all, {host.queued:,} queued, {host.leased:,} under way",
        f"  gap       {_seconds(host.gap_seconds)} ({host.gap_reason})" + (", a slow host" if host.slow else ""),
    ]
    lines += [f"            {_seconds(seconds)} ({reason})" for reason, seconds in host.gaps[1:]]
    lines.append(f"  next      {_when(host, clock)}" + (f" ({host.next_reason})" if host.next_reason else ""))
    if host.order:
        lines.append(f"  order     {_ORDERS[host.order]} by the operator")
    if host.breaker_trips:
        lines.append(f"  breaker   opened {show_count(host.breaker_trips, 'time')} since the last good answer")
    lines += [f"  ceiling   {name}" for name in host.ceilings]
    for one in host.authorities:
        left = (one.wait_us - clock.wall_us()) / 1e6
        wait = f", waits {show_duration(left)} ({one.wait_reason})" if left > 0 else ""
        lines.append(f"  server    {one.authority}: {one.queued:,} queued{wait}")
        if one.robots_oddity is not None:
            lines.append(f"            its robots.txt is {ODDITIES[one.robots_oddity]}")
    return lines


def _as_json(host: HostNow, *, whole: bool) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(host)
    fields["gaps"] = [{"reason": reason, "seconds": seconds} for reason, seconds in host.gaps]
    if not whole:
        del fields["authorities"]
    return fields
