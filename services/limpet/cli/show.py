"""`limpet show`: everything that is known of one URL, and what it waits for."""

import argparse
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from limpet.cli.opening import open_crawl
from limpet.cli.plan import check_identity
from limpet.cli.printing import plain, print_json, print_lines
from limpet.cli.rowjson import row_json
from limpet.cli.seeds import Entry, check_url
from limpet.cli.units import show_bytes, show_count
from limpet.clock import SystemClock
from limpet.embedded.finder import Finder
from limpet.embedded.folder import Folder
from limpet.embedded.orderbook import OrderBook
from limpet.embedded.views import ShardViews
from limpet.model.errors import UsageError
from limpet.model.lifecycle import State
from limpet.model.outcome import Outcome
from limpet.model.urls import split
from limpet.politeness.orders import BLOCKED, NO_ORDER, PAUSED, HostOrder
from limpet.robots import ODDITIES, Oddity, stored_oddity
from limpet.runtime.sqlitetx import Reader
from limpet.urlstore import ParseOutput, UrlRow
from limpet.urlstore.sqlite import ShardView, reading

EXIT_USAGE: Final = 2
_URL_BYTES_MAX: Final = 65_536
_WAITING: Final = frozenset({State.DUE, State.LEASED})
_ORDERED: Final = {PAUSED: "paused by the operator", BLOCKED: "blocked by the operator"}


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a URL waits for. `until_us` None: for a person."""

    until_us: int | None
    reason: str


def show(arguments: argparse.Namespace) -> int:
    """One URL: its row, its outcomes with their records, and the robots copy that licensed each."""
    folder = open_crawl(arguments.folder)
    check_identity(folder)  # a URL is looked up where this Limpet would put it
    url = check_url(Entry(arguments.url, ""), _URL_BYTES_MAX).url
    order = OrderBook(folder).look().get(split(url).host, NO_ORDER)
    with ShardViews(folder) as views:
        finder = Finder(folder, views)
        view, row = views.view(finder.shard(url)), finder.row(url)
        if row is None:
            return _unknown(folder, views, finder.shard(url), url, as_json=arguments.json)
        outcomes = [(outcome, _parsed(view, outcome)) for outcome in view.outcomes(row.fp)]
        via = _url_of(views, row.via)
        waits = views.read_one(finder.shard(url), lambda reader: _waits(reader, row, order, SystemClock().wall_us()))
        oddity = views.read_one(finder.shard(url), lambda reader: _robots_oddity(reader, row))
    if arguments.json:
        shown = [_outcome_json(*found) for found in outcomes]
        more = {"via": via, "lease_us": row.lease_us, "holder": row.holder, "waits": msgspec.to_builtins(waits)}
        more["robots_oddity"] = oddity
        print_json({**row_json(row), "known": True, **more, "outcomes": shown})
    else:
        robots = [] if oddity is None else [f"  robots    the server's robots.txt is {ODDITIES[oddity]}"]
        print_lines(
            _row_lines(row, via, waits) + robots + [line for found in outcomes for line in _outcome_lines(*found)]
        )
    return 0


def _unknown(folder: Folder, views: ShardViews, shard: int, url: str, *, as_json: bool) -> int:
    """No row: perhaps a rule left it out, and its URL is among the samples."""
    host = split(url).host
    rejects = views.read_one(shard, reading.rejects)
    rules = sorted({reject.rule for reject in rejects if reject.host == host and reject.sample == url})
    if as_json:
        print_json({"url": url, "known": False, "rejected_by": rules})
        return EXIT_USAGE
    why = f"left out by rule {', '.join(rules)}" if rules else "a rule may have left it out (see `limpet report`)"
    raise UsageError(f"{url} is not in {folder.path}: {why}")


def _parsed(view: ShardView, outcome: Outcome) -> ParseOutput | None:
    """By the latest version of the parser that has seen it."""
    from limpet.parser.page import PARSER_VERSION  # noqa: PLC0415 - slow to import, and only `show` asks

    versions = range(PARSER_VERSION, 0, -1)
    return next((found for v in versions if (found := view.output(outcome.fp, outcome.fetched_us, v))), None)


def _url_of(views: ShardViews, fp: bytes) -> str:
    """URL of a fingerprint, "" when there is none: the shard is not known, so all are asked."""
    if not fp:
        return ""
    return next((row.url for _, view in views if (row := view.row(fp)) is not None), "")


def _waits(reader: Reader, row: UrlRow, order: HostOrder, now_us: int) -> list[Wait]:
    """What keeps a URL that is due from being sent, longest first."""
    if row.state not in _WAITING:
        return []
    waits = [Wait(until_us=None, reason=order.stopped)] if order.stopped else []
    times = [(row.due_us, "due then" if not row.reason else f"due then, after {row.reason}")]
    authority, host = reading.authority(reader, row.authority), reading.host(reader, row.host)
    times += [(one.wait_us, one.wait_reason) for one in (authority, host) if one is not None]
    later = sorted((pair for pair in times if pair[0] > now_us), reverse=True)
    return waits + [Wait(until_us=until_us, reason=reason) for until_us, reason in later]


def _robots_oddity(reader: Reader, row: UrlRow) -> Oddity | None:
    """Why the robots.txt that decides cannot be read as one, None if it can."""
    authority = reading.authority(reader, row.authority)
    return None if authority is None else stored_oddity(authority.robots)


def _outcome_json(outcome: Outcome, parsed: ParseOutput | None) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(outcome)
    fields["fp"] = outcome.fp.hex()
    fields["gap_us"] = outcome.gap_us
    fields["parsed"] = None if parsed is None else {"links": parsed.links, "flags": list(parsed.flags)}
    return fields


def _row_lines(row: UrlRow, via: str, waits: list[Wait]) -> list[str]:
    lines = [
        row.url,
        f"  state     {row.state.value}" + (f" ({row.reason})" if row.reason else ""),
        f"  admitted  {_time(row.admitted_us)}, depth {row.depth}" + (", a seed" if row.seed else ""),
    ]
    if row.hops:
        lines.append(f"  path      {row.hops} ({row.kind})")
    if via:
        lines.append(f"  found on  {via}")
    if row.state is State.DUE:
        lines.append(f"  due       {_time(row.due_us)}")
    if row.state is State.LEASED:
        lines.append(f"  lease     until {_time(row.lease_us)}, held by {row.holder}")
    for wait in waits:
        until = "until resumed" if wait.until_us is None else f"until {_time(wait.until_us)}"
        lines.append(f"  waits     {until}: {_ORDERED.get(wait.reason, wait.reason)}")
    if row.failures or row.interruptions:
        tried = f"{show_count(row.failures, 'failure')}, {show_count(row.interruptions, 'interruption')}"
        lines.append(f"  tried     {tried} since it last went well")
    return lines


def _outcome_lines(outcome: Outcome, parsed: ParseOutput | None) -> list[str]:
    answer = f"HTTP {outcome.status}" if outcome.status else f"{outcome.failure}: {outcome.detail}"
    if outcome.status or outcome.wire_bytes:  # without an answer the detail tells what came
        answer += f", {show_bytes(outcome.wire_bytes)} {outcome.mime}"
    lines = [f"  {_time(outcome.fetched_us)}  {answer}".rstrip()]
    if outcome.truncated:
        lines.append(f"    cut      {outcome.truncated}")
    if outcome.location is not None:
        place = outcome.location
        lines.append(f"    record   {place.segment} at {place.offset}, {place.length} bytes")
    if parsed is not None:
        odd = f", {', '.join(parsed.flags)}" if parsed.flags else ""
        lines.append(f"    parsed   {show_count(parsed.links, 'link')}{odd}")
    rule = f" ({outcome.robots_rule})" if outcome.robots_rule else ""
    lines.append(f"    licence  {outcome.robots_digest or 'no robots.txt asked'}{rule}, gap {outcome.gap_us / 1e6:g} s")
    return [plain(line) for line in lines]


def _time(us: int) -> str:
    return datetime.fromtimestamp(us / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if us else "–"  # noqa: RUF001 - none
