"""What the benchmark reports: every figure by name, with its unit, its target and the command that gives it."""

import argparse
import json
import os
import platform
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Literal

Part = Literal["crawl", "start", "resume"]
PARTS: Final[tuple[Part, ...]] = ("crawl", "start", "resume")
_LIBRARIES: Final = ("ada-url", "httpx", "isal", "mmh3", "msgspec", "selectolax", "uvloop")


@dataclass(frozen=True, slots=True)
class Definition:
    """What a figure means. `most` and `least` are targets; None where there is none."""

    part: Part
    title: str
    unit: str
    most: float | None = None
    least: float | None = None

    def holds(self, value: float) -> bool:
        """Whether the target, if there is one, is met."""
        return (self.most is None or value <= self.most) and (self.least is None or value >= self.least)

    @property
    def target(self) -> str:
        """The target in words; "" where there is none."""
        if self.most is not None:
            return f"≤ {self.most:g}"
        return f"≥ {self.least:g}" if self.least is not None else ""


DEFINITIONS: Final[dict[str, Definition]] = {
    "cpu_ms_per_page": Definition(
        "crawl", "CPU of all Limpet processes per HTML page, start and end included", "ms", 3.0
    ),
    "cpu_user_ms_per_page": Definition("crawl", "of which user", "ms"),
    "cpu_system_ms_per_page": Definition("crawl", "of which system", "ms"),
    "cpu_steady_ms_per_page": Definition("crawl", "the same in the steady part", "ms"),
    "cpu_per_calibration": Definition("crawl", "CPU per page ÷ CPU of one zlib -6 of a fixed 72 KB page", ""),
    "origin_cpu_ms_per_page": Definition("crawl", "CPU of the origin per page, steady part", "ms"),
    "pages_per_second": Definition("crawl", "pages per second, steady part", "1/s"),
    "cores_busy_share": Definition(
        "crawl", "crawler and origin: share of the cores that others leave, kept busy, steady part", "", None, 0.9
    ),
    "others_busy_share": Definition(
        "crawl", "everything else on the machine (and steal): share of all cores, steady part", ""
    ),
    "seconds": Definition("crawl", "duration of the crawl, first request to last", "s"),
    "rss_mib_max": Definition("crawl", "largest resident set of any Limpet process", "MiB", 300.0),
    "rss_growth_mib_max": Definition(
        "crawl", "its growth from the middle of the crawl to its end, worst process", "MiB", 15.0
    ),
    "wire_bytes_per_page": Definition("crawl", "bytes on the wire per page", "B"),
    "state_bytes_per_url": Definition("crawl", "bytes of state (shards, seen, logs not yet trimmed) per URL", "B"),
    "violations": Definition("crawl", "violations that the origin's judge found", "", 0),
    "start_seconds": Definition("start", "launch to first request, new crawl of one seed, median", "s", 1.0),
    "start_seconds_max": Definition("start", "the slowest of these starts", "s"),
    "start_many_seconds": Definition("start", "launch to first request, new crawl of a seed a host, median", "s", 1.0),
    "resume_seconds": Definition("resume", "launch to first request, known URLs, after a clean stop, median", "s", 3.0),
    "resume_seconds_max": Definition("resume", "the slowest of these", "s"),
    "resume_killed_seconds": Definition("resume", "the same after kill -9 of every process, median", "s", 3.0),
    "stop_seconds": Definition("resume", "Ctrl-C to the end of the command, every host at work, median", "s"),
    "resume_rss_mib_max": Definition("resume", "largest resident set of any Limpet process meanwhile", "MiB", 300.0),
    "resume_state_bytes_per_url": Definition("resume", "bytes of state (shards, seen) per URL", "B"),
}


@dataclass(frozen=True, slots=True)
class Result:
    """What one part gave: values by the names above, and what stands behind them."""

    part: Part
    values: Mapping[str, float]
    details: Mapping[str, Any]

    def missed(self) -> list[str]:
        """Names of the figures that miss their target."""
        return [name for name, value in self.values.items() if not DEFINITIONS[name].holds(value)]


def command_of(part: Part, options: str = "") -> str:
    """The command that gives the figures of a part."""
    return f"PYTHONPATH=loadtest .venv/bin/python -m scenarios.bench --only {part}{options}"


def lines(result: Result, options: str = "") -> list[str]:
    """A part's figures for a terminal, the command first."""
    shown = [f"$ {command_of(result.part, options)}"]
    for name, value in result.values.items():
        definition = DEFINITIONS[name]
        verdict = f"  {'ok' if definition.holds(value) else 'MISSED'}, {definition.target}" if definition.target else ""
        shown.append(f"  {number(value):>9} {definition.unit:<4} {definition.title}{verdict}")
    return shown


def make_quick(options: argparse.Namespace, most: Mapping[str, float], evidence: Path) -> None:
    """The `--quick` form of a bench: nothing above `most`, and its figures are no evidence."""
    vars(options).update({name: min(value, getattr(options, name)) for name, value in most.items()})
    options.out = None if options.out == evidence else options.out


def number(value: float) -> str:
    """As many digits as mean something."""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def machine() -> dict[str, Any]:
    """What the figures were measured on. No host name."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "libraries": {name: version(name) for name in _LIBRARIES},
    }


def _cpu_model() -> str:
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return names[0].partition(":")[2].strip() if names else platform.processor()


def write_evidence(path: Path, result: Result, calibration_ms: float, load_before: float) -> None:
    """Write the figures of a part; those of the others that the file holds are kept."""
    evidence = json.loads(path.read_text()) if path.exists() else {"parts": {}}
    evidence["parts"][result.part] = {
        "command": command_of(result.part),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine(),
        "load_average_before": round(load_before, 2),
        "calibration_gzip_ms": round(calibration_ms, 4),
        "figures": {name: round(value, 4) for name, value in result.values.items()},
        "details": result.details,
    }
    path.write_text(json.dumps(evidence, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
