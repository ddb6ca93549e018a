"""Real kills and their book-keeping: who was killed when, what was in flight, what was asked again because of it.

*The instant.* Files of a dead owner do not change any more, so they are read after the kill, as copies. When one
worker is killed, its supervisor is stopped just before (SIGSTOP), so that nobody mends anything until the look is over;
the victim itself dies at full speed.

*In flight* are leases, messages and requests that are new since the kill before: what that one left behind and nobody
has taken up since does not count again.

*Duplicates.* At each kill the witness tells which requests of the dead have arrived since the kill before that hit
their host, and the shard files tell which of them have an outcome (robots.txt: a stored verdict). The others were *not
committed*. Afterwards each repeated request is laid at the door of the first kill after the earlier one. It has to be
among those that were not committed there: so the duplicates of a kill are at most its requests without a committed
outcome, URL by URL. A page that the site refused with a 503 is asked again by right.
"""

import random
import signal
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic_ns, sleep, time_ns
from typing import Literal

from e2e.inflight import Look, WitnessLog, look
from e2e.processes import CrawlProcess, Watched, shards_of, wait_until
from origin.visits import Visit

Victim = Literal["worker", "supervisor", "group", "interrupts"]
"""One worker, the supervisor alone, all processes at once; or two SIGINT to all, the second of which ends at once."""
VICTIMS: tuple[Victim, ...] = ("worker", "supervisor", "group")
INTERRUPTED = 130
RECOVERING = "recovering what it left"
STOPPING = "stopping: requests in flight are finished first"
SHARDS = range(32)


@dataclass
class Kill:
    """One kill and what it hit."""

    victim: Victim
    phase: str
    t_ns: int
    hosts: set[str]
    under_way: int
    leased: int
    unread: int
    uncommitted: Counter[str]
    gone_seconds: float
    duplicates: Counter[str] = field(default_factory=Counter)

    @property
    def counts(self) -> bool:
        """Whether anything was in flight."""
        return self.under_way + self.leased + self.unread > 0


class Siege:
    """A crawl that is killed again and again. `arguments` are those of `limpet crawl`, the same for every run."""

    def __init__(self, arguments: Sequence[str | Path], folder: Path, witness: WitnessLog, seed: int) -> None:
        self._arguments = arguments
        self._folder = folder
        self._scratch = folder.with_name("siege")
        self._scratch.mkdir()
        self._witness = witness
        self._chance = random.Random(seed)
        self._known = Look()
        self._last: dict[str, tuple[int, int]] = {}  # host -> monotonic ns and wall us of the last kill that hit it
        self.kills: list[Kill] = []
        self.runs: list[CrawlProcess] = []

    def close(self) -> None:
        """End what is left."""
        for run in self.runs:
            run.close()

    @property
    def counted(self) -> list[Kill]:
        """Kills that hit something in flight."""
        return [kill for kill in self.kills if kill.counts]

    def run(self) -> CrawlProcess:
        """The run under way; the command is given again if the last one was killed or interrupted.

        AssertionError if it ended by itself.
        """
        if self.runs:
            code = self.runs[-1].exit_code
            if code is None:
                return self.runs[-1]
            text = self.runs[-1].text[-2000:]
            assert code in {-signal.SIGKILL, INTERRUPTED}, f"the crawl ended by itself with exit code {code}:\n{text}"
        self.runs.append(CrawlProcess(self._arguments, self._scratch / f"run-{len(self.runs):03d}.log"))
        return self.runs[-1]

    # -- instants ----------------------------------------------------------------------------------------------------
    def await_work(self) -> CrawlProcess:
        """The run under way, once it has sent something since its start and since the kill before."""
        run = self.run()
        since_ns = max(run.started_ns, self.kills[-1].t_ns if self.kills else 0)

        def sends() -> bool:
            self._witness.read()
            return self._witness.requested_ns > since_ns or run.exit_code is not None

        wait_until(sends, "a request")
        return run

    def strike_at_work(self, victim: Victim, *, seconds_max: float) -> Kill:
        """Kill at a seeded instant after that."""
        self.await_work()
        return self._strike_soon(victim, "work", seconds_max)

    def strike_at_start(self, victim: Victim, *, seconds_max: float) -> Kill:
        """Kill at a seeded instant after the command was given."""
        self.run()
        return self._strike_soon(victim, "start", seconds_max)

    def strike_in_recovery(self, victim: Victim, *, seconds_max: float) -> Kill:
        """Kill at a seeded instant after the supervisor said that it recovers.

        Where the run before died clean, before it had taken anything up, there is nothing to recover: the instant is
        then one after its first request, and the kill is noted as one at work.
        """
        run = self.run()

        def recovers_or_sends() -> bool:
            self._witness.read()
            sends = self._witness.requested_ns > run.started_ns
            return RECOVERING in run.text or sends or run.exit_code is not None

        wait_until(recovers_or_sends, "a recovery")
        return self._strike_soon(victim, "recovery" if RECOVERING in run.text else "work", seconds_max)

    def _strike_soon(self, victim: Victim, phase: str, seconds_max: float) -> Kill:
        sleep(self._chance.uniform(0.0, seconds_max))
        kill = self._strike_worker(phase) if victim == "worker" else self._strike_supervisor(victim, phase)
        self.kills.append(kill)
        return kill

    # -- one kill ----------------------------------------------------------------------------------------------------
    def _strike_supervisor(self, victim: Victim, phase: str) -> Kill:
        run = self.run()
        workers = run.workers()
        signal_ns = monotonic_ns()
        match victim:
            case "supervisor":
                run.send(signal.SIGKILL)
            case "interrupts":
                _interrupt_twice(run)
            case _:
                run.kill_group()
        run.wait(10.0)
        gone_seconds = wait_until(lambda: all(worker.gone for worker in workers), "the workers to die", 10.0)
        return self._note(victim, phase, signal_ns, SHARDS, gone_seconds)

    def _strike_worker(self, phase: str) -> Kill:
        run = self.run()
        workers = run.workers()
        victim = self._chance.choice(_owners(workers) or workers)
        run.send(signal.SIGSTOP)
        try:
            shards = shards_of(victim.pid)
            signal_ns = monotonic_ns()
            victim.kill()
            gone_seconds = wait_until(lambda: victim.gone, "a worker to die", 10.0)
            return self._note("worker", phase, signal_ns, shards, gone_seconds)
        finally:
            run.send(signal.SIGCONT)

    def _note(self, victim: Victim, phase: str, signal_ns: int, shards: Iterable[int], gone_seconds: float) -> Kill:
        seen = look(self._folder, shards, self._scratch)
        self._witness.settle(seen.hosts)
        now = monotonic_ns(), time_ns() // 1000
        visits = [visit for visit in self._witness.visits() if visit.host in seen.hosts]
        kill = Kill(
            victim=victim,
            phase=phase,
            t_ns=now[0],
            hosts=seen.hosts,
            under_way=sum(visit.end_ns >= signal_ns for visit in visits),
            leased=len(seen.tokens - self._known.tokens),
            unread=len(seen.unread - self._known.unread),
            uncommitted=self._uncommitted(visits, seen),
            gone_seconds=gone_seconds,
        )
        self._known.tokens.update(seen.tokens)
        self._known.unread.update(seen.unread)
        self._last.update(dict.fromkeys(seen.hosts, now))
        return kill

    def _uncommitted(self, visits: Iterable[Visit], seen: Look) -> Counter[str]:
        """Requests since the kill before without an outcome."""
        asked: Counter[str] = Counter()
        committed: Counter[str] = Counter()
        for visit in visits:
            since_ns, since_us = self._last.get(visit.host, (0, 0))
            if visit.received_ns > since_ns:
                asked[visit.url] += 1
                committed[visit.url] = _outcomes(visit, seen, since_us)
        return asked - committed


def _interrupt_twice(run: CrawlProcess) -> None:
    run.send_to_group(signal.SIGINT)
    wait_until(lambda: STOPPING in run.text, "the crawl to notice")
    run.send_to_group(signal.SIGINT)


def _owners(workers: Iterable[Watched]) -> list[Watched]:
    return [worker for worker in workers if shards_of(worker.pid)]


def _outcomes(visit: Visit, seen: Look, since_us: int) -> int:
    """How many requests for the URL of `visit` since then have been answered for."""
    if visit.target == "/robots.txt":
        return int(f"http://{visit.asked.authority}" in seen.licensed)
    return sum(us > since_us for us in seen.fetched_us.get(visit.url, ()))


def blame(kills: Sequence[Kill], visits: Iterable[Visit]) -> list[str]:
    """Lay every repeated request at a kill's door; those that no kill explains, one line each."""
    unexplained = []
    latest: dict[str, Visit] = {}
    for visit in visits:
        before = latest.get(visit.url)
        latest[visit.url] = visit
        if before is None or before.status == 503:
            continue
        kill = next((kill for kill in kills if visit.host in kill.hosts and kill.t_ns >= before.received_ns), None)
        if kill is not None and kill.t_ns <= visit.received_ns and visit.url in kill.uncommitted:
            kill.duplicates[visit.url] += 1
        else:
            seconds = (visit.received_ns - before.received_ns) / 1e9
            unexplained.append(f"{visit.url} was asked again after {seconds:.3f} s, and no kill is to blame")
    return unexplained
