"""The listing of `limpet hosts`, and one host in full."""

from typing import Any, Final

import msgspec

from limpet.assembly.hostjudge import HostNow
from limpet.cli.crawlview import CrawlView
from limpet.cli.printing import print_json, print_json_list, print_lines
from limpet.cli.units import show_count, show_duration
from limpet.clock import Clock, SystemClock
from limpet.politeness.orders import BLOCKED, BLOCKED_URLS, OPERATOR_SLOW, PAUSED
from limpet.robots import ODDITIES

EXIT_DONE: Final = 0
_ORDERS: Final = {PAUSED: "paused", BLOCKED: "blocked", BLOCKED_URLS: "urls_blocked", OPERATOR_SLOW: "slowed"}


def list_hosts(view: CrawlView, *, as_json: bool) -> int:
    """Print every host."""
    clock = SystemClock()
    if as_json:
        print_json_list(_as_json(host, whole=False) for host in view.hosts())
    else:
        print_lines(["host\tqueued\tgap\twhy\tnext\twhy\tmarks"])
        print_lines(_line(host, clock) for host in view.hosts())
    return EXIT_DONE


def show_host(host: HostNow, *, as_json: bool) -> int:
    """Print one host in full."""
    if as_json:
        print_json(_as_json(host, whole=True))
    else:
        print_lines(_in_full(host, SystemClock()))
    return EXIT_DONE


def _line(host: HostNow, clock: Clock) -> str:
    marks = [_ORDERS[host.order]] if host.order else []
    marks += ["slow"] if host.slow else []
    marks += [f"robots_{oddity}" for oddity in host.robots_oddities]
    fields = [host.host, _count(host.queued), _seconds(host.gap_seconds), host.gap_reason]
    return "\t".join([*fields, _when(host, clock), host.next_reason or "-", ",".join(marks) or "-"])


def _when(host: HostNow, clock: Clock) -> str:
    if host.next_us is None:
        return "when resumed"
    left = (host.next_us - clock.wall_us()) / 1e6
    return f"in {show_duration(left)}" if left > 0 else "now"


def _count(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"


def _seconds(seconds: float) -> str:
    return show_duration(seconds) if seconds >= 60 else f"{seconds:.3g} s"


def _in_full(host: HostNow, clock: Clock) -> list[str]:
    lines = [
        host.host,
        f"  URLs      {host.urls:,} in all, {_count(host.queued)} queued, {_count(host.leased)} under way",
        f"  gap       {_seconds(host.gap_seconds)} ({host.gap_reason})" + (", a slow host" if host.slow else ""),
    ]
    lines += [f"            {_seconds(seconds)} ({reason})" for reason, seconds in host.gaps[1:]]
    lines.append(f"  next      {_when(host, clock)}" + (f" ({host.next_reason})" if host.next_reason else ""))
    lines += [f"  order     blocked by the operator: what begins with {path}" for path in host.blocked_paths]
    if host.order and host.order != BLOCKED_URLS:
        lines.append(f"  order     {_ORDERS[host.order]} by the operator")
    if host.breaker_trips:
        lines.append(f"  breaker   opened {show_count(host.breaker_trips, 'time')} since the last good answer")
    lines += [f"  ceiling   {name}" for name in host.ceilings]
    for one in host.authorities:
        left = (one.wait_us - clock.wall_us()) / 1e6
        wait = f", waits {show_duration(left)} ({one.wait_reason})" if left > 0 else ""
        lines.append(f"  server    {one.authority}: {_count(one.queued)} queued{wait}")
        if one.robots_oddity is not None:
            lines.append(f"            its robots.txt is {ODDITIES[one.robots_oddity]}")
    return lines


def _as_json(host: HostNow, *, whole: bool) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(host)
    fields["gaps"] = [{"reason": reason, "seconds": seconds} for reason, seconds in host.gaps]
    if not whole:
        del fields["authorities"]
    return fields
