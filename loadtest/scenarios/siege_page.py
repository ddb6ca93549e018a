"""Writes the measured part of `docs/local-servers.md` out of the evidence of the siege.

PYTHONPATH=loadtest python -m scenarios.siege_page
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
EVIDENCE: Final = ROOT / "loadtest" / "evidence" / "cluster.json"
PAGE: Final = ROOT / "docs" / "local-servers.md"
MARKERS: Final = ("<!-- measured: begin -->\n", "<!-- measured: end -->\n")
TITLES: Final = {
    "smoke": "Each role dies once",
    "undisturbed": "Nobody dies",
    "siege": "One server of each kind",
    "three": "Three servers of each kind",
}


def render(evidence: Mapping[str, Any]) -> str:
    """The cases that the evidence has."""
    cases = [case for case in TITLES if case in evidence]
    return "\n" + "\n".join(line for case in cases for line in _case(TITLES[case], evidence[case]))


def _case(title: str, found: Mapping[str, Any]) -> Iterator[str]:
    kinds: Mapping[str, Mapping[str, Any]] = found["by_kind"]
    faults = sum(kind["faults"] for kind in kinds.values())
    yield f"### {title}\n"
    yield f"`{found['command']}`: {found['cores']} cores, load {found['load_average_before']:g} before it.\n"
    yield "| | |"
    yield "|---|---:|"
    yield from (f"| {name} | {value} |" for name, value in _figures(found, faults))
    yield ""
    if not kinds:
        return
    yield "| Fault | Times | Until it served again, at most | Longest time without an answer | Requests repeated |"
    yield "|---|---:|---:|---:|---:|"
    for name, kind in kinds.items():
        still = f"{kind['standstill_seconds_max']:.1f} s"
        yield f"| {name} | {kind['faults']} | {kind['seconds_max']:.1f} s | {still} | {kind['duplicates']} |"
    yield ""


def _figures(found: Mapping[str, Any], faults: int) -> Iterator[tuple[str, str]]:
    yield "URLs fetched", f"{found['urls_fetched']:,} in {found['seconds']:,.0f} s"
    yield "faults", str(faults)
    yield "anomalies", str(found["anomalies"])
    yield "violations of politeness", str(found["violations"])
    yield "requests, repeated because of a fault", f"{found['requests']:,}, {found['duplicates']}"
    yield "captures appended twice", str(found["superfluous_records"])
    yield "from the last fault to the end", f"{found['end_after_last_fault_seconds']:.0f} s"
    if found["takeover_seconds"]:
        yield "until others had the shards of a killed crawl node", seconds(found["takeover_seconds"])
    if found["joined_first_fetch_seconds"]:
        yield "first fetch of a crawl node that joined", seconds(found["joined_first_fetch_seconds"])
    yield "CPU of Limpet's own processes a URL", f"{found['cpu_seconds_per_url'] * 1e3:.0f} ms"
    yield "conditional writes to Cassandra a URL", f"{found['conditional_writes_per_url']:g}"


def seconds(values: Sequence[float | None]) -> str:
    """Least to most."""
    known = [value for value in values if value is not None]
    if not known:
        return "none"
    return f"{min(known):.0f} to {max(known):.0f} s" if len(known) > 1 else f"{known[0]:.0f} s"


def page_with(text: str, measured: str) -> str:
    """The page, with `measured` between its markers."""
    before, _, rest = text.partition(MARKERS[0])
    return before + MARKERS[0] + measured + MARKERS[1] + rest.partition(MARKERS[1])[2]


def main() -> int:
    """Write the page."""
    PAGE.write_text(page_with(PAGE.read_text("utf-8"), render(json.loads(EVIDENCE.read_text("utf-8")))), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
