"""The verdict on a crawl that was killed again and again, and the figures that go with it."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from e2e.command import OWNED, limpet, listed
from e2e.inflight import WitnessLog
from e2e.killing import VICTIMS, Kill, Siege, blame
from limpet.model.lifecycle import State
from origin import OriginProcess, Policy, Verdict, examine

OUTLIVE_SECONDS_MAX = 2.0
RESIDUAL_SECONDS = 0.5
"""A wait is persisted as soon as its headers are read: within a commit interval and a sync."""
TAKEOVER_SECONDS = 1.0
"""An owned host whose answer was cut off by our death is left alone so long."""
_DESERVED = {"page": State.FETCHED, "redirect": State.FETCHED, "gone": State.GONE, "denied": State.DENIED}


def crawl_arguments(origin: OriginProcess, folder: Path, *, workers: int) -> list[str | Path]:
    """The command line of `limpet crawl` over all hosts of a kill web."""
    seeds = folder.with_name("seeds.txt")
    seeds.write_text("\n".join(origin.seeds) + "\n")
    flags = ["--scope", "any", "--depth", "20", *OWNED, "--workers", str(workers), "--patience", "5s"]
    return ["-i", seeds, "--into", folder, *flags]


def states_of(folder: Path) -> dict[str, str]:
    """URL -> state, as `limpet urls` tells at once."""
    return {row["url"]: row["state"] for row in limpet("urls", folder, "--json").json}


def states_by_state(folder: Path) -> dict[str, str]:
    """URL -> state, as `limpet urls` tells state by state."""
    found: dict[str, str] = {}
    for state in State:
        for url in listed(folder, state.value):
            assert url not in found, f"{url} is listed as {found[url]} and as {state.value}"
            found[url] = state.value
    return found


def deserved_states(origin: OriginProcess) -> dict[str, str]:
    """URL -> state that the web itself says it must end in."""
    return {url: _DESERVED[kind].value for url, kind in origin.web.expected().items()}


def assert_sound(folder: Path) -> None:
    """`verify` and `audit` find nothing."""
    for verb in ("verify", "audit"):
        result = limpet(verb, folder, "--json")
        assert result.code == 0, f"{verb}: {result}"
        assert result.json["ok"], result.json["findings"][:5]


def assert_survived(siege: Siege, witness: WitnessLog) -> None:
    """No worker outlived its supervisor, and every repeated request is one that a kill explains."""
    lingering = [kill for kill in siege.kills if kill.gone_seconds > OUTLIVE_SECONDS_MAX]
    assert not lingering, lingering
    assert blame(siege.kills, witness.visits()) == []
    for kill in siege.kills:
        assert kill.duplicates.total() <= kill.uncommitted.total(), kill


def judged(origin: OriginProcess, kills: Iterable[Kill]) -> Verdict:
    """The witness's verdict, told when the crawler was killed; call it once the origin has stopped."""
    policy = Policy(
        owned=True,
        kills_ns=tuple(kill.t_ns for kill in kills),
        residual_seconds=RESIDUAL_SECONDS,
        takeover_seconds=TAKEOVER_SECONDS,
    )
    return examine(origin.events(), policy)


def figures(siege: Siege, verdict: Verdict, seconds: float) -> dict[str, Any]:
    """Everything worth telling of a siege, ready for JSON."""
    return {
        "seconds": round(seconds, 1),
        "runs": len(siege.runs),
        "requests": verdict.requests,
        "violations": len(verdict.violations),
        "residuals": len(verdict.residuals),
        "workers_gone_seconds_max": round(max(kill.gone_seconds for kill in siege.kills), 3),
        "kills": len(siege.kills),
        "kills_that_count": len(siege.counted),
        "by_victim": {victim: _sums([k for k in siege.kills if k.victim == victim]) for victim in VICTIMS},
        "by_phase": {phase: _sums([k for k in siege.kills if k.phase == phase]) for phase in _phases(siege.kills)},
    }


def _phases(kills: Iterable[Kill]) -> list[str]:
    return sorted({kill.phase for kill in kills})


def _sums(kills: Sequence[Kill]) -> dict[str, float]:
    duplicates = [kill.duplicates.total() for kill in kills]
    return {
        "kills": len(kills),
        "count": sum(kill.counts for kill in kills),
        "under_way": sum(kill.under_way for kill in kills),
        "uncommitted": sum(kill.uncommitted.total() for kill in kills),
        "duplicates": sum(duplicates),
        "duplicates_median": median(duplicates) if duplicates else 0,
        "duplicates_max": max(duplicates, default=0),
    }


_COLUMNS = ("kills", "count", "under_way", "uncommitted", "duplicates", "duplicates_median", "duplicates_max")


def table(found: dict[str, Any]) -> str:
    """The figures for people."""
    lines = [f"{'':12}" + "".join(f"{name.replace('_', ' '):>19}" for name in _COLUMNS)]
    for group in ("by_victim", "by_phase"):
        for name, sums in found[group].items():
            lines.append(f"{name:12}" + "".join(f"{sums[column]:>19g}" for column in _COLUMNS))
    lines.append(
        f"{found['kills_that_count']} of {found['kills']} kills count; {found['requests']} requests, "
        f"{found['violations']} violations, {found['residuals']} residuals; workers gone within "
        f"{found['workers_gone_seconds_max']:g} s; {found['runs']} runs in {found['seconds']:g} s"
    )
    return "\n".join(lines)
