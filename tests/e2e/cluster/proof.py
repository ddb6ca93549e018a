"""A crawl from its seeds to its end under faults, and the verdict of everybody who can judge it."""

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic_ns
from typing import Any, Final

from e2e.cluster.archive import OPEN, incarnation_of
from e2e.cluster.blame import Laid, blame, by_kind, time_standstills
from e2e.cluster.checkers import anomalies, without_outcome
from e2e.cluster.config import FETCH_SECONDS_MAX, LEASE_SECONDS, TAKEOVER_SECONDS, URL_LEASE_SECONDS
from e2e.cluster.crawl import ClusterCrawl
from e2e.cluster.evidence import Evidence
from e2e.cluster.faults import Fault
from e2e.cluster.progress import Progress
from e2e.cluster.pulled import verdict as pulled_verdict
from e2e.cluster.reading import FETCHED, LINKS, Authority, Bus, left_of, marks_of, open_segments, segments_of
from e2e.cluster.roles import Roles
from e2e.cluster.servers_up import ClusterServers
from e2e.cluster.siege import Siege, await_end
from e2e.cluster.takeover import takeover_seconds
from e2e.cluster.truth import bodies, deserved
from e2e.processes import wait_until
from origin import OriginProcess, Policy, Verdict, examine

SETTLE_SECONDS: Final = URL_LEASE_SECONDS + TAKEOVER_SECONDS + 10.0
"""After a fault: how long until what it interrupted has been asked again, or never will be."""
FREEZE_SECONDS_LONG: Final = LEASE_SECONDS + FETCH_SECONDS_MAX + 10.0
END_SECONDS_MAX: Final = 600.0
SEAL_SECONDS_MAX: Final = 240.0
CONDITIONAL_MAX: Final = 8


@dataclass
class Proof:
    """What came of it."""

    evidence: Evidence
    laid: list[Laid]
    findings: list[str]
    figures: dict[str, Any]


def prove(
    servers: ClusterServers,
    path: Path,
    origin: OriginProcess,
    faults: Sequence[Fault],
    *,
    seed: int = 1,
    say: Callable[[str], None] = lambda _: None,
) -> Proof:
    """Crawl the whole web of `origin`, which runs already, while `faults` are laid; judge what is left."""
    begun_ns, load = monotonic_ns(), os.getloadavg()[0]
    progress = Progress(origin.log_path)
    wanted = deserved(origin.web)
    total = sum(kind != "denied" for kind in wanted.values())
    with ClusterCrawl(servers, path) as crawl:
        crawl.limpet("add", *origin.seeds)
        seeded_ns = monotonic_ns()
        siege = Siege(crawl.field, progress, total, seed=seed, say=say)
        siege.lay_all(faults)
        say("the last fault is laid")
        with Authority(servers) as authority, Bus(servers) as bus:
            end_seconds = await_end(lambda: left_of(authority, bus), END_SECONDS_MAX, crawl.roles.check)
            ended_ns = monotonic_ns()
            recovered(crawl, servers)
            await_end(lambda: left_of(authority, bus), END_SECONDS_MAX, crawl.roles.check)
        measured = measure(crawl, progress, begun_ns, seeded_ns, ended_ns)
        exits = end_all(crawl)
        surprises = crawl.roles.surprises()
        joined = {crawl.field.joined[name]: life for name, life in crawl.roles.lives() if name in crawl.field.joined}
        kills = [life.killed_ns for name, life in crawl.roles.lives() if "crawlnode" in name and life.killed_ns]
    origin.stop()
    judged_pulled = pulled_verdict(crawl, path / "pulled")
    evidence = gather(servers, origin, progress)
    verdict = judged(origin, kills)
    time_standstills(siege.laid, evidence.visits)
    findings = [
        *anomalies(evidence),
        *blame(siege.laid, evidence.visits, SETTLE_SECONDS),
        *(f"impolite fetch: {found.kind}: {found.host}: {found.detail}" for found in verdict.violations),
        *(f"bad end: {name} ended with {code} at SIGTERM" for name, code in exits.items() if code != 0),
        *(f"bad end: {line}" for line in surprises),
        *judged_pulled,
    ]
    measured |= {
        "anomalies": len(findings) - len(verdict.violations),
        "load_average_before": round(load, 1),
        "takeover_seconds": takeovers(crawl.roles),
        "end_after_last_fault_seconds": round(end_seconds, 1),
        "requests": verdict.requests,
        "duplicates": sum(fault.duplicates.total() for fault in siege.laid),
        "superfluous_records": len(without_outcome(evidence)),
        "violations": len(verdict.violations),
        "residuals": len(verdict.residuals),
        "by_kind": by_kind(siege.laid),
        "joined_first_fetch_seconds": [
            first_fetch_seconds(evidence, name, life.started_wall_us) for name, life in joined.items()
        ],
    }
    (path / "findings.txt").write_text("\n".join(findings) + "\n")
    return Proof(evidence, siege.laid, findings, measured)


def recovered(crawl: ClusterCrawl, servers: ClusterServers) -> None:
    """Until the reconciler has dealt with every segment whose writer is dead."""

    def dead() -> list[str]:
        living = {crawl.incarnation(name) for name in crawl.roles.of("crawlnode")}
        return [name for name in open_segments(servers) if incarnation_of(name) not in living]

    try:
        wait_until(lambda: not dead(), "the segments of the dead to be recovered", SEAL_SECONDS_MAX)
    except AssertionError as error:
        raise AssertionError(f"{error}: {dead()}") from None


def end_all(crawl: ClusterCrawl) -> dict[str, int | None]:
    """As an orchestrator ends a crawl; exit code by place."""
    return crawl.roles.stop()


def gather(servers: ClusterServers, origin: OriginProcess, progress: Progress) -> Evidence:
    """Everything, once nobody writes any more."""
    records, torn, unsealed = segments_of(servers)
    with Authority(servers) as authority, Bus(servers) as bus:
        return Evidence(
            deserved=deserved(origin.web),
            bodies=bodies(origin.web),
            rows=authority.rows(),
            facts=authority.facts(),
            parses=authority.parses(),
            records=records,
            torn=torn,
            unsealed=[name for name in unsealed if name.endswith(OPEN)],
            announced=bus.announced(),
            lags=[*bus.lags(FETCHED), *bus.lags(LINKS)],
            marks=marks_of(servers),
            visits=progress.visits(),
            dead_letters=bus.dead(),
            troubles=tuple(authority.troubles()),
        )


def judged(origin: OriginProcess, kills_ns: Sequence[int]) -> Verdict:
    """The witness's verdict, told when crawl nodes were killed; the origin must have stopped."""
    policy = Policy(owned=True, kills_ns=tuple(kills_ns), residual_seconds=1.0, takeover_seconds=1.0)
    return examine(origin.events(), policy)


def measure(crawl: ClusterCrawl, progress: Progress, begun_ns: int, seeded_ns: int, ended_ns: int) -> dict[str, Any]:
    """What it cost."""
    pages = progress.count()
    cpu = crawl.roles.cpu_seconds()
    by_role: dict[str, float] = {}
    for name, seconds in cpu.items():
        role = name.rpartition("-")[0]
        by_role[role] = by_role.get(role, 0.0) + seconds
    return {
        "urls_fetched": pages,
        "seconds": round((ended_ns - seeded_ns) / 1e9, 1),
        "start_seconds": round((seeded_ns - begun_ns) / 1e9, 1),
        "urls_per_second": round(pages / ((ended_ns - seeded_ns) / 1e9), 1),
        "cpu_seconds_per_url": round(sum(cpu.values()) / pages, 5),
        "cpu_seconds_by_role": {role: round(seconds, 1) for role, seconds in by_role.items()},
        "statements_per_url": round(crawl.tally("statements").total() / pages, 1),
        "conditional_writes_per_url": round(crawl.tally("conditional").total() / pages, 2),
        "conditional_by_name_per_url": {
            name: round(count / pages, 3) for name, count in crawl.tally("conditional").most_common(CONDITIONAL_MAX)
        },
        "servers_megabytes": crawl.servers.memory_megabytes(),
        "servers_up_seconds": crawl.servers.up_seconds,
    }


def takeovers(roles: Roles) -> list[float]:
    """For each crawl node that was killed: how long until others served its shards."""
    lives = [life for name, life in roles.lives() if name.startswith("crawlnode")]
    logs = {id(life): life.log.read_text(errors="replace") for life in lives}
    found = [
        takeover_seconds(logs[id(life)], list(logs.values()), life.killed_wall_us) for life in lives if life.killed_ns
    ]
    return [seconds for seconds in found if seconds is not None]


def first_fetch_seconds(evidence: Evidence, incarnation: str, started_us: int) -> float | None:
    """From a process's start to its first record; None if it never fetched."""
    first = evidence.first_fetch_us.get(incarnation)
    return None if first is None else round((first - started_us) / 1e6, 1)


def about() -> dict[str, Any]:
    """Where it was measured."""
    return {"python": platform.python_version(), "cores": len(os.sched_getaffinity(0))}
