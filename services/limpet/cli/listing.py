"""`status`, `urls`, `show` and `failures`: read-only, so they work while the crawl runs."""

import argparse
import asyncio
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from limpet.cli.owning import retry
from limpet.cli.printing import plain, print_json, print_lines
from limpet.cli.reading import requests_on, rows, unparsed
from limpet.cli.seeds import Entry, check_url
from limpet.cli.units import show_bytes, show_count, show_duration
from limpet.clock import SystemClock
from limpet.config import Settings
from limpet.embedded.collect import Collected, Collector
from limpet.embedded.finder import Finder
from limpet.embedded.folder import Folder
from limpet.embedded.lock import lock_holder
from limpet.embedded.views import ShardViews
from limpet.model.errors import UsageError
from limpet.model.lifecycle import State
from limpet.model.outcome import Outcome
from limpet.urlstore import ParseOutput, UrlRow, counters
from limpet.urlstore.sqlite import ShardView

DAY_US: Final = 86_400_000_000
EXIT_FINDINGS: Final = 1
FAILED_STATES: Final = (State.FAILED, State.REVIEW, State.GONE)
_URL_BYTES_MAX: Final = 65_536


def status(arguments: argparse.Namespace) -> int:
    """Counts of the crawl."""
    folder = Folder.open(arguments.folder)
    clock = SystemClock()
    with ShardViews(folder) as views:
        collected = Collector(views, clock).collect(whole=True)
        fetches = requests_on(views, clock.wall_us() // DAY_US)
    budget = (folder.load_settings() or Settings()).politeness.budget_per_day or None
    running = lock_holder(folder.path)
    if arguments.json:
        print_json(_status_json(collected, fetches, budget, running))
    else:
        print_lines(_status_lines(folder, collected, fetches, budget, running))
    return 0


def _status_json(collected: Collected, fetches: int, budget: int | None, running: str | None) -> dict[str, Any]:
    rest = collected.rest
    return {
        "urls": collected.states,
        "records": collected.total(counters.RECORDS),
        "bytes": collected.wire_bytes,
        "today": {"fetches": fetches, "budget": budget},
        "pages": collected.pages,
        "running": running is not None,
        "unread": rest.unread if rest else 0,
        "jobs": rest.jobs if rest else 0,
        "unparsed": collected.total(counters.JOBS_REVIEW),
        "repairs": rest.repairs if rest else 0,
        "next_due_us": rest.queues[0].effective_us if rest and rest.queues else None,
    }


def _status_lines(
    folder: Folder, collected: Collected, fetches: int, budget: int | None, running: str | None
) -> list[str]:
    rest = collected.rest
    states = ", ".join(f"{count:,} {name}" for name, count in collected.states.items()) or "none"
    lines = [
        f"{folder.path}: crawl {folder.facts.crawl}, " + (f"running (process {running})" if running else "not running"),
        f"  URLs     {states}",
        f"  pages    {collected.pages:,}",
        f"  archive  {show_count(collected.total(counters.RECORDS), 'record')}, {show_bytes(collected.wire_bytes)}",
        f"  today    {show_count(fetches, 'request')} (UTC day, {f'budget {budget:,}' if budget else 'no budget'})",
    ]
    if rest and rest.queues:
        seconds = (rest.queues[0].effective_us - collected.at_us) / 1e6
        lines.append(
            f"  next     {rest.queues[0].authority} " + (f"in {show_duration(seconds)}" if seconds > 0 else "now")
        )
    if blind := collected.total(counters.JOBS_REVIEW):
        lines.append(f"  review   {show_count(blind, 'page')} could not be parsed: limpet failures {folder.path}")
    if rest and (rest.unread or rest.jobs or rest.repairs):
        lines.append(f"  open     {rest.unread} unread logs, {rest.jobs} parse jobs, {rest.repairs} repairs")
    return lines


def urls(arguments: argparse.Namespace) -> int:
    """URLs, one a line."""
    folder = Folder.open(arguments.folder)
    states = None if arguments.state is None else (State(arguments.state),)
    with ShardViews(folder) as views:
        if arguments.json:
            print_json([_row_json(row) for row in rows(views, states)])
        else:
            print_lines(row.url for row in rows(views, states))
    return 0


def show(arguments: argparse.Namespace) -> int:
    """One URL: its row, its outcomes with their records, and the robots copy that licensed each."""
    folder = Folder.open(arguments.folder)
    url = check_url(Entry(arguments.url, ""), _URL_BYTES_MAX).url
    with ShardViews(folder) as views:
        finder = Finder(folder, views)
        row = finder.row(url)
        if row is None:
            raise UsageError(
                f"{url} is not in {folder.path}: a rule may have left it out (see the summary of the crawl)"
            )
        view = views.view(finder.shard(url))
        outcomes = [(outcome, _parsed(view, outcome)) for outcome in view.outcomes(row.fp)]
        via = _url_of(views, row.via)
    if arguments.json:
        print_json({**_row_json(row), "via": via, "outcomes": [_outcome_json(*found) for found in outcomes]})
    else:
        print_lines(_row_lines(row, via) + [line for found in outcomes for line in _outcome_lines(*found)])
    return 0


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


def failures(arguments: argparse.Namespace) -> int:
    """What failed and why; with --retry all of it becomes due again."""
    folder = Folder.open(arguments.folder)
    if arguments.retry:
        count = asyncio.run(retry(folder, FAILED_STATES))
        if arguments.json:
            print_json({"retried": count})
        else:
            print_lines([f"{show_count(count, 'URL')} due again: limpet crawl --into {folder.path}"])
        return 0
    with ShardViews(folder) as views:
        found = list(rows(views, FAILED_STATES))
        blind = unparsed(views)
    if arguments.json:
        lost = [{"url": page.url, "state": "fetched", "reason": f"not parsed: {page.reason}"} for page in blind]
        print_json([_row_json(row) for row in found] + lost)
    else:
        print_lines(f"{row.state.value}\t{row.reason}\t{row.url}" for row in found)
        print_lines(f"fetched\tnot parsed: {page.reason}\t{page.url}" for page in blind)
    return EXIT_FINDINGS if found or blind else 0


def _row_json(row: UrlRow) -> dict[str, Any]:
    return {
        "url": row.url,
        "state": row.state.value,
        "reason": row.reason,
        "due_us": row.due_us,
        "depth": row.depth,
        "hops": row.hops,
        "kind": row.kind,
        "seed": row.seed,
        "failures": row.failures,
        "interruptions": row.interruptions,
        "latest_us": row.latest_us,
        "admitted_us": row.admitted_us,
        "fingerprint": row.fp.hex(),
    }


def _outcome_json(outcome: Outcome, parsed: ParseOutput | None) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(outcome)
    fields["fp"] = outcome.fp.hex()
    fields["parsed"] = None if parsed is None else {"links": parsed.links, "flags": list(parsed.flags)}
    return fields


def _row_lines(row: UrlRow, via: str) -> list[str]:
    lines = [
        row.url,
        f"  state     {row.state.value}" + (f" ({row.reason})" if row.reason else ""),
        f"  admitted  {_time(row.admitted_us)}, depth {row.depth}" + (", a seed" if row.seed else ""),
    ]
    if row.state is State.DUE:
        lines.append(f"  due       {_time(row.due_us)}")
    if row.failures or row.interruptions:
        lines.append(f"  tried     {row.failures} failures, {row.interruptions} interruptions")
    if via:
        lines.append(f"  found on  {via}")
    return lines


def _outcome_lines(outcome: Outcome, parsed: ParseOutput | None) -> list[str]:
    answer = f"HTTP {outcome.status}" if outcome.status else f"{outcome.failure}: {outcome.detail}"
    lines = [f"  {_time(outcome.fetched_us)}  {answer}, {show_bytes(outcome.wire_bytes)} {outcome.mime}".rstrip()]
    if outcome.location is not None:
        place = outcome.location
        lines.append(f"    record   {place.segment} at {place.offset}, {place.length} bytes")
    if parsed is not None:
        odd = f", {', '.join(parsed.flags)}" if parsed.flags else ""
        lines.append(f"    parsed   {show_count(parsed.links, 'link')}{odd}")
    licence = f"{outcome.robots_digest or 'no robots.txt asked'}" + (
        f" ({outcome.robots_rule})" if outcome.robots_rule else ""
    )
    lines.append(f"    licence  {licence}")
    return [plain(line) for line in lines]


def _time(us: int) -> str:
    return datetime.fromtimestamp(us / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if us else "–"  # noqa: RUF001 - none
