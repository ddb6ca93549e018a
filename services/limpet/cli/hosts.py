"""`limpet hosts`: why each host is asked as seldom as it is, and an operator's orders for hosts and parts of them.

An order is durable before it is acknowledged; the workers of a running crawl look for orders every few seconds.
"""

import argparse
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from limpet.assembly.hostjudge import HostNow
from limpet.cli.crawlview import CrawlView
from limpet.cli.hostlist import list_hosts, show_host
from limpet.cli.opening import open_view
from limpet.cli.printing import print_json, print_lines
from limpet.cli.units import show_duration
from limpet.clock import SystemClock
from limpet.model.errors import UsageError
from limpet.model.urls import InvalidUrl, canonicalize, is_host_name, split
from limpet.politeness.orders import NO_ORDER, PATHS_MAX, HostOrder

SLOW_DEFAULT_SECONDS: Final = 60.0
GAP_SECONDS_MAX: Final = 31_536_000.0
ORDERS: Final = ("pause", "slow", "block", "resume")
BY_URL: Final = ("block", "resume")
"""Orders that may be given for all URLs which begin like one."""
_DONE: Final = {
    "pause": "paused: nothing is sent to it, and its URLs wait",
    "slow": "slowed down: at least {gap} between two requests",
    "block": "blocked: its URLs are cancelled",
    "resume": "goes on: every order for it is taken back",
    "block URL": "blocked: URLs that begin so are cancelled",
    "resume URL": "goes on: it is blocked no more",
}


def hosts(arguments: argparse.Namespace) -> int:
    """List, or order."""
    with open_view(arguments) as view:
        return _hosts(view, arguments)


def _hosts(view: CrawlView, arguments: argparse.Namespace) -> int:
    words: list[str] = arguments.words
    if words and words[0] in ORDERS:
        if len(words) != 2:
            raise UsageError(f"name one host: limpet hosts {view.name} {words[0]} HOST")
        if arguments.gap is not None and words[0] != "slow":
            raise UsageError(f"--gap goes with slow, not with {words[0]}")
        return _order(view, words[0], words[1], arguments)
    if len(words) > 1:
        raise UsageError(f"{words[0]!r} is no order: use {', '.join(ORDERS)}, or name one host to look at")
    if arguments.gap is not None:
        raise UsageError(f"--gap goes with slow: limpet hosts {view.name} slow HOST --gap S")
    if words:
        return show_host(_known_host(view, words[0]), as_json=arguments.json)
    return list_hosts(view, as_json=arguments.json)


def named_host(text: str) -> str:
    """The host that `text` names, as a crawl writes it. Raises `UsageError` for what is no host name."""
    host = _host_in(f"http://{text}/")
    if "/" in text:
        within = _host_in(text if "://" in text else f"http://{text.lstrip('/')}")
        raise UsageError(f"{text!r} is no host name: write it as {within or 'example.org'}")
    if not host:
        raise UsageError(f"{text!r} is no host name: write it as example.org")
    return host


def named_place(verb: str, text: str) -> tuple[str, str]:
    """The host that `text` names, and how paths begin there of which it speaks, "" = all. Raises `UsageError`."""
    if verb not in BY_URL or "/" not in text:
        return named_host(text), ""
    try:
        url = canonicalize(text if "://" in text else f"http://{text}")
    except InvalidUrl:
        return named_host(text), ""
    parts = split(url)
    path = url[len(parts.authority) :]
    return (parts.host, path) if path != "/" and is_host_name(parts.host) else (named_host(text), "")


def _known_host(view: CrawlView, text: str) -> HostNow:
    """The same, of a host that can be looked at. Raises `UsageError` for one neither met nor ordered anything of."""
    host = named_host(text)
    found = view.host(host)
    if found is None:
        raise UsageError(f"{host} is not a host of {view.name}: `limpet hosts {view.name}` lists them")
    return found


def _host_in(url: str) -> str:
    """The host of `url`, "" when it has none."""
    try:
        host = split(canonicalize(url)).host
    except InvalidUrl:
        return ""
    return host if is_host_name(host) else ""


def _order(view: CrawlView, verb: str, text: str, arguments: argparse.Namespace) -> int:
    gap_seconds = SLOW_DEFAULT_SECONDS if arguments.gap is None else float(arguments.gap)
    if gap_seconds <= 0:
        raise UsageError(f"--gap must be above 0: `limpet hosts {view.name} resume HOST` takes an order back")
    if gap_seconds > GAP_SECONDS_MAX:
        raise UsageError("--gap is longer than a year: block the host instead")
    host, path = named_place(verb, text)
    met = view.met(host)
    edit = (
        _edit_path(verb, SystemClock().wall_us(), path) if path else _edit(verb, SystemClock().wall_us(), gap_seconds)
    )
    before, after = view.change_order(host, edit)
    running = view.running
    if arguments.json:
        print_json(
            {
                "host": host,
                "path": path,
                "order": verb,
                "changed": before != after,
                "running": running,
                "met": met,
                **_as_json(after),
            }
        )
        return 0
    when = "in force within seconds" if running else "in force when the crawl starts again"
    place, done = host + path, _DONE[f"{verb} URL" if path else verb].format(gap=show_duration(gap_seconds))
    if before == after:
        print_lines(
            [f"{place}: nothing was ordered of it" if verb == "resume" else f"{place}: that was its order already"]
        )
    else:
        stranger = "" if met or verb == "resume" else "; the crawl has not met it yet"
        print_lines([f"{place} {done} ({when}{stranger})"])
    return 0


def _edit(verb: str, now_us: int, gap_seconds: float) -> Callable[[HostOrder], HostOrder]:
    """How an order changes what was ordered before."""
    match verb:
        case "pause":
            return lambda order: replace(order, paused_us=order.paused_us or now_us)
        case "slow":
            return lambda order: replace(order, gap_seconds=gap_seconds)
        case "block":
            return lambda order: replace(order, blocked_us=order.blocked_us or now_us)
        case _:
            return lambda _order: NO_ORDER


def _edit_path(verb: str, now_us: int, path: str) -> Callable[[HostOrder], HostOrder]:
    """The same for a part of a host."""

    def edit(order: HostOrder) -> HostOrder:
        others = {other: us for other, us in order.blocked_paths.items() if other != path}
        if verb == "block":
            others[path] = order.blocked_paths.get(path, now_us)
        if len(others) > PATHS_MAX:
            raise UsageError(f"more than {PATHS_MAX:,} parts of one host: block what they begin with, or the host")
        return replace(order, blocked_paths=others)

    return edit


def _as_json(order: HostOrder) -> dict[str, object]:
    return {
        "paused_us": order.paused_us,
        "blocked_us": order.blocked_us,
        "gap_seconds": order.gap_seconds,
        "blocked_paths": order.blocked_paths,
    }
