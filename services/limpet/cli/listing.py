"""`status`, `urls` and `failures`: read-only, so they work while the crawl runs."""

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from limpet.cli.crawlview import CrawlView
from limpet.cli.opening import open_crawl, open_view
from limpet.cli.printing import print_json, print_json_list, print_lines
from limpet.cli.reading import damages, parked_by_rule, requests_on
from limpet.cli.rowjson import row_json
from limpet.cli.summary import damage_line, parked_line, until_us
from limpet.cli.units import show_bytes, show_count, show_duration
from limpet.clock import SystemClock
from limpet.config import Settings
from limpet.embedded.budget import BudgetWatch
from limpet.embedded.collect import Collected, Collector
from limpet.embedded.folder import Folder
from limpet.embedded.live import Listener
from limpet.embedded.lock import lock_holder
from limpet.embedded.orderbook import OrderBook
from limpet.embedded.views import ShardViews
from limpet.model.lifecycle import State
from limpet.politeness.daybudget import BUDGET
from limpet.urlstore import counters

DAY_US: Final = 86_400_000_000
EXIT_FINDINGS: Final = 1
ORDERED_SHOWN_MAX: Final = 10
FAILED_STATES: Final = (State.FAILED, State.REVIEW, State.GONE)


def status(arguments: argparse.Namespace) -> int:
    """Counts of the crawl."""
    if arguments.config is not None:
        from limpet.cli.pull import status as status_of_cluster  # noqa: PLC0415 - loads the drivers

        return status_of_cluster(arguments)
    folder = open_crawl(arguments.folder)
    clock = SystemClock()
    orders = OrderBook(folder).look()
    settings = folder.load_settings() or Settings()
    held_us = BudgetWatch(folder.shares_file, settings, clock)
    with ShardViews(folder) as views:
        collected = Collector(views, clock, lambda: orders, budget=held_us).collect(whole=True)
        fetches = requests_on(views, clock.wall_us() // DAY_US)
        parked = parked_by_rule(views)
        damaged = damages(views)
    budget = settings.politeness.budget_per_day or None
    running = lock_holder(folder.path)
    silent = Listener(folder.run, clock).silent_workers() if running is not None else {}
    ordered = {host: order.told for host, order in sorted(orders.items())}
    if arguments.json:
        more = {"hosts_ordered": ordered, "silent_workers": list(silent), "parked": dict(parked), "damaged": damaged}
        print_json({**_status_json(collected, fetches, budget, running), **more})
    else:
        print_lines(_status_lines(folder, collected, fetches, budget, running))
        print_lines(f"  damaged  {damage_line(folder, text)}" for text in damaged)
        print_lines(f"  parked   {parked_line(folder, *one)}" for one in parked.most_common())
        print_lines(f"  worker   {slot} has not been heard of for {show_duration(age)}" for slot, age in silent.items())
        print_lines(f"  ordered  {host}: {order}" for host, order in list(ordered.items())[:ORDERED_SHOWN_MAX])
        if len(ordered) > ORDERED_SHOWN_MAX:
            print_lines([f"           and {len(ordered) - ORDERED_SHOWN_MAX:,} more hosts: limpet hosts {folder.path}"])
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
        "next_due_us": until_us(rest.queues[0]) if rest and rest.queues else None,
        "next_reason": rest.queues[0].reason if rest and rest.queues else "",
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
        f"  archive  {show_count(collected.total(counters.RECORDS), 'response')}, {show_bytes(collected.wire_bytes)}",
        f"  today    {show_count(fetches, 'request')} (UTC day, {f'budget {budget:,}' if budget else 'no budget'})",
    ]
    if rest and rest.queues and until_us(rest.queues[0]) is not None:
        seconds = (rest.queues[0].effective_us - collected.at_us) / 1e6
        at = datetime.fromtimestamp(rest.queues[0].effective_us / 1e6, UTC)
        reason = f", at {at:%H:%M} UTC: the day's budget paces the crawl" if rest.queues[0].reason == BUDGET else ""
        lines.append(
            f"  next     {rest.queues[0].authority} "
            + (f"in {show_duration(seconds)}{reason}" if seconds > 0 else "now")
        )
    if blind := collected.total(counters.JOBS_REVIEW):
        lines.append(f"  review   {show_count(blind, 'page')} could not be parsed: limpet failures {folder.path}")
    if rest and (rest.unread or rest.jobs or rest.repairs):
        lines.append(f"  open     {rest.unread} unread logs, {rest.jobs} parse jobs, {rest.repairs} repairs")
    return lines


def urls(arguments: argparse.Namespace) -> int:
    """URLs, one a line."""
    states = None if arguments.state is None else (State(arguments.state),)
    with open_view(arguments) as view:
        if arguments.json:
            print_json_list(row_json(row) for row in view.rows(states))
        else:
            print_lines(row.url for row in view.rows(states))
    return 0


def failures(arguments: argparse.Namespace) -> int:
    """What failed and why, and what a rule holds back; with --retry all of it becomes due again."""
    with open_view(arguments) as view:
        if arguments.retry:
            return _retry(view, as_json=arguments.json)
        found = _Failures(view)
        if arguments.json:
            print_json_list(found)
        else:
            print_lines(f"{one['state']}\t{one['reason']}\t{one['url']}" for one in found)
    return EXIT_FINDINGS if found.failed else 0


class _Failures:
    """What went wrong, as JSON objects. `failed`: whether any of those that were told had."""

    def __init__(self, view: CrawlView) -> None:
        self._view = view
        self.failed = False

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for row in self._view.rows((*FAILED_STATES, State.PARKED)):
            self.failed |= row.state is not State.PARKED  # what is parked did not fail
            yield row_json(row)
        for page in self._view.unparsed():
            self.failed = True
            yield {"url": page.url, "state": State.FETCHED.value, "reason": f"not parsed: {page.reason}"}
        for text in self._view.damages():
            self.failed = True
            yield {"url": "", "state": "damaged", "reason": text}


def _retry(view: CrawlView, *, as_json: bool) -> int:
    count = view.retry((*FAILED_STATES, State.PARKED))
    if as_json:
        print_json({"retried": count})
    else:
        print_lines([f"{show_count(count, 'URL')} due again" + (f": {view.resumed_by}" if view.resumed_by else "")])
    return 0
