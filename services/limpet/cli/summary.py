"""How a run ended, as text for people, as JSON for programs, and as an exit code."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from limpet.cli.reading import BadSeed, bad_seeds, damages, parked_by_rule, rejects_by_rule
from limpet.cli.units import show_bytes, show_count, show_duration
from limpet.embedded.collect import UNKNOWN_US
from limpet.embedded.finder import seeds
from limpet.embedded.folder import Folder
from limpet.embedded.supervisor import Ending, Report
from limpet.embedded.views import ShardViews
from limpet.model.lifecycle import State
from limpet.politeness.daybudget import BUDGET
from limpet.politeness.orders import BLOCKED, PAUSED
from limpet.urlstore import counters
from limpet.urlstore.sqlite import QueueState

EXIT_DONE: Final = 0
EXIT_UNFINISHED: Final = 3
EXIT_INTERRUPTED: Final = 130
SHOWN_MAX: Final = 10
RULES_SHOWN_MAX: Final = 5
_REASONS: Final = {
    "": "due then",
    "robots": "robots.txt unreachable",
    PAUSED: "paused by the operator",
    BLOCKED: "blocked by the operator",
    BUDGET: "the day's budget of requests, see --budget",
}


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is worth saying at the end of a run."""

    report: Report
    waiting: tuple[QueueState, ...]
    bad_seeds: tuple[BadSeed, ...]
    rejects: tuple[tuple[str, int], ...]  # (rule, links), most first
    segments: str
    folder: str = "DIR"
    parked: tuple[tuple[str, int], ...] = ()  # (rule, URLs), most first
    damaged: tuple[str, ...] = ()  # segments, and where
    redirected: tuple[str, ...] = ()  # where seeds redirected to in this run: seeds themselves now

    @property
    def exit_code(self) -> int:
        """0 done or stopped at a limit as asked, 3 with bad seeds, waiting URLs or unparsed pages, 130 interrupted."""
        if self.report.ending is Ending.INTERRUPTED:
            return EXIT_INTERRUPTED
        if self.report.ending is not Ending.DONE:
            return EXIT_DONE
        rejected = self.report.seeding.rejected
        return EXIT_UNFINISHED if self.waiting or self.bad_seeds or rejected or self.unparsed else EXIT_DONE

    @property
    def unparsed(self) -> int:
        """Stored pages that the parser gave up on: their links are not known."""
        return self.report.end.total(counters.JOBS_REVIEW)


def summarize(folder: Folder, views: ShardViews, report: Report, known_seeds: Iterable[str]) -> Summary:
    """Read what a report needs beside the counters. `known_seeds`: of earlier runs, and given to this one."""
    rest = report.end.rest
    known = set(known_seeds)
    return Summary(
        report=report,
        waiting=rest.queues if rest else (),
        bad_seeds=tuple(bad_seeds(folder, views)),
        rejects=tuple(rejects_by_rule(views).most_common()),
        parked=tuple(parked_by_rule(views).most_common()),
        damaged=tuple(damages(views)),
        segments=str(folder.segment_directories[0]),
        folder=str(folder.path),
        redirected=tuple(url for url in seeds(views) if url not in known),
    )


def until_us(queue: QueueState) -> int | None:
    """When something may be sent, None when only the operator knows."""
    return None if queue.effective_us >= UNKNOWN_US else queue.effective_us


def as_json(summary: Summary) -> dict[str, Any]:
    """The summary as one JSON object."""
    report, end = summary.report, summary.report.end
    return {
        "ended": report.ending.value,
        "exit_code": summary.exit_code,
        "pages": end.pages,
        "pages_this_run": end.pages - report.begin.pages,
        "bytes": end.wire_bytes,
        "records": end.total(counters.RECORDS),
        "urls": end.states,
        "rejected": dict(summary.rejects),
        "parked": dict(summary.parked),
        "damaged": list(summary.damaged),
        "waiting": [
            {"authority": queue.authority, "until_us": until_us(queue), "reason": queue.reason}
            for queue in summary.waiting
        ],
        "repairs": end.rest.repairs if end.rest else 0,
        "unparsed": summary.unparsed,
        "failed_seeds": [{"url": seed.url, "state": seed.state, "reason": seed.reason} for seed in summary.bad_seeds],
        "redirected_seeds": list(summary.redirected),
        "seeds": {
            "new": report.seeding.new,
            "known": report.seeding.known,
            "rejected": [{"url": url, "rule": rule} for url, rule in report.seeding.rejected],
        },
        "seconds": round(report.elapsed_seconds, 3),
        "segments": summary.segments,
    }


def as_text(summary: Summary, folder: Folder, limit: int | None) -> str:
    """The summary as lines."""
    report, end = summary.report, summary.report.end
    pages = end.pages - report.begin.pages
    rate = pages / report.elapsed_seconds if report.elapsed_seconds > 0 else 0.0
    size = show_bytes(end.wire_bytes - report.begin.wire_bytes)
    took = f"{show_duration(report.elapsed_seconds)} ({rate:.1f} pages/s)"
    lines = [
        _headline(summary, limit),
        f"  this run   {show_count(pages, 'page')}, {size} in {took}",
        f"  in all     {show_count(end.pages, 'page')}, {show_bytes(end.wire_bytes)}",
        "  URLs       " + (", ".join(f"{count:,} {name}" for name, count in end.states.items()) or "none"),
    ]
    if summary.rejects:
        shown = ", ".join(f"{count:,} {rule}" for rule, count in summary.rejects[:RULES_SHOWN_MAX])
        lines.append(f"  left out   {shown}")
    lines += [f"  parked     {parked_line(folder, rule, count)}" for rule, count in summary.parked]
    lines.append(f"  archive    {summary.segments}")
    lines += [f"  damaged    {damage_line(folder, text)}" for text in summary.damaged[:SHOWN_MAX]]
    lines += _more(len(summary.damaged), "damage")
    lines += [f"  seed       {url} (a seed redirected there, so it is one)" for url in summary.redirected[:SHOWN_MAX]]
    lines += _more(len(summary.redirected), "redirected seed")
    if summary.unparsed:
        lines.append(
            f"  review     {show_count(summary.unparsed, 'page')} could not be parsed: their links are not known"
        )
    lines += _bad_seed_lines(summary) + _waiting_lines(summary) + _next_lines(summary, folder)
    return "\n".join(lines)


def parked_line(folder: Folder, rule: str, count: int) -> str:
    """How many URLs a rule holds back, and the way out."""
    from limpet.admission.rules import Rule  # noqa: PLC0415 - takes a while to import, and is seldom needed

    if rule == Rule.HOST_CAP.value:
        rule += ", a higher --host-limit lets them go"
    return f"{show_count(count, 'URL')} ({rule}): limpet failures {folder.path} [--retry]"


def damage_line(folder: Folder, text: str) -> str:
    """One damage, and what to do about it."""
    return f"{text}: what was stored has changed; see limpet verify {folder.path}, restore it from a copy"


def _headline(summary: Summary, limit: int | None) -> str:
    match summary.report.ending:
        case Ending.DONE:
            return _done(summary)
        case Ending.LIMIT:
            return f"Stopped at the limit of {show_count(limit or 0, 'page')}."
        case Ending.TIME_LIMIT:
            return "Stopped at the time limit."
        case Ending.INTERRUPTED:
            return "Interrupted; nothing is lost."


def _done(summary: Summary) -> str:
    """Done is said only where nothing is left and every seed went well."""
    if summary.waiting:
        return "Nothing can be fetched within patience; run the same command again later for what waits."
    return "Done, but for seeds that ended badly." if summary.bad_seeds or summary.report.seeding.rejected else "Done."


def _bad_seed_lines(summary: Summary) -> list[str]:
    bad = [(seed.url, f"{seed.state}: {seed.reason}" if seed.reason else seed.state) for seed in summary.bad_seeds]
    bad += [(url, f"left out by rule {rule}") for url, rule in summary.report.seeding.rejected]
    lines = [f"  seed       {url} ({reason})" for url, reason in bad[:SHOWN_MAX]]
    return lines + _more(len(bad), "seed that ended badly")


def _waiting_lines(summary: Summary) -> list[str]:
    """What waits longer than we did, with how long and why."""
    if summary.report.ending is not Ending.DONE:
        return []
    lines = []
    for queue in summary.waiting[:SHOWN_MAX]:
        seconds = (queue.effective_us - summary.report.end.at_us) / 1e6
        reason = _REASONS.get(queue.reason, queue.reason)
        if until_us(queue) is None:
            resume = f"limpet hosts {summary.folder} resume {queue.host}"
            lines.append(f"  waits      {queue.authority} ({reason}; to go on: {resume})")
            continue
        lines.append(f"  waits      {queue.authority} for {show_duration(seconds)} ({reason})")
    return lines + _more(len(summary.waiting), "server that waits")


def _more(count: int, what: str) -> list[str]:
    return [f"             and {count - SHOWN_MAX:,} more ({what})"] if count > SHOWN_MAX else []


def _next_lines(summary: Summary, folder: Folder) -> list[str]:
    """What to do next."""
    report, end, path = summary.report, summary.report.end, folder.path
    lines = []
    if report.ending is not Ending.DONE or summary.waiting:
        lines.append(f"  go on      limpet crawl --into {path}")
    bad = end.state(State.FAILED) or end.state(State.REVIEW) or end.state(State.GONE)
    if bad or summary.unparsed or summary.damaged:
        lines.append(f"  failures   limpet failures {path}")
    lines.append(f"  check      limpet verify {path} · limpet audit {path}")
    return lines
