"""`limpet show`: everything that is known of one URL, and what it waits for."""

import argparse
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from limpet.cli.crawlview import CrawlView, Known
from limpet.cli.opening import open_view
from limpet.cli.printing import plain, print_json, print_lines
from limpet.cli.rowjson import row_json
from limpet.cli.seeds import Entry, check_url
from limpet.cli.units import show_bytes, show_count
from limpet.clock import SystemClock
from limpet.model.errors import UsageError
from limpet.model.lifecycle import State
from limpet.model.outcome import Outcome
from limpet.model.urls import split
from limpet.politeness.orders import BLOCKED, PAUSED, HostOrder
from limpet.robots import ODDITIES, stored_oddity
from limpet.urlstore import ParseOutput, UrlRow

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
    url = check_url(Entry(arguments.urls[0], ""), _URL_BYTES_MAX).url
    with open_view(arguments) as view:
        known = view.known(url)
        if known is None:
            return _unknown(view, url, as_json=arguments.json)
        order = view.order(split(url).host)
    row, waits = known.row, _waits(known, order, SystemClock().wall_us())
    outcomes = [(outcome, _parsed(known, outcome)) for outcome in known.outcomes]
    oddity = stored_oddity(known.authority.robots) if known.authority is not None else None
    if arguments.json:
        shown = [_outcome_json(*found) for found in outcomes]
        more = {"via": known.via, "lease_us": row.lease_us, "holder": row.holder, "waits": msgspec.to_builtins(waits)}
        more["robots_oddity"] = oddity
        print_json({**row_json(row), "known": True, **more, "outcomes": shown})
    else:
        robots = [] if oddity is None else [f"  robots    the server's robots.txt is {ODDITIES[oddity]}"]
        print_lines(
            _row_lines(row, known.via, waits) + robots + [line for found in outcomes for line in _outcome_lines(*found)]
        )
    return 0


def _unknown(view: CrawlView, url: str, *, as_json: bool) -> int:
    """No row: perhaps a rule left it out, and its URL is among the samples."""
    rules = view.rejected_by(url)
    if as_json:
        print_json({"url": url, "known": False, "rejected_by": rules})
        return EXIT_USAGE
    why = f"left out by rule {', '.join(rules)}" if rules else "a rule may have left it out (see `limpet report`)"
    raise UsageError(f"{url} is not in {view.name}: {why}")


def _parsed(known: Known, outcome: Outcome) -> ParseOutput | None:
    """By the latest version of the parser that has seen it."""
    found = [output for output in known.outputs if output.fetched_us == outcome.fetched_us]
    return max(found, key=lambda output: output.parser_version, default=None)


def _waits(known: Known, order: HostOrder, now_us: int) -> list[Wait]:
    """What keeps a URL that is due from being sent, longest first."""
    row = known.row
    if row.state not in _WAITING:
        return []
    waits = [Wait(until_us=None, reason=order.stopped)] if order.stopped else []
    times = [(row.due_us, "due then" if not row.reason else f"due then, after {row.reason}")]
    times += [(one.wait_us, one.wait_reason) for one in (known.authority, known.host) if one is not None]
    later = sorted((pair for pair in times if pair[0] > now_us), reverse=True)
    return waits + [Wait(until_us=until_us, reason=reason) for until_us, reason in later]


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
