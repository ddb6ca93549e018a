"""How other matchers fare on the undisputed cases; the figures behind ADR 0002.

`python tests/conformance/test_robots_comparison.py` measures again and rewrites the evidence file and the table in
the ADR; run it where the case folder is (environment variable LIMPET_CASES).
"""

import base64
import gzip
import importlib.metadata
import json
import multiprocessing
import os
import platform
import time
import urllib.robotparser
from collections.abc import Callable
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from protego import Protego
from robotexclusionrulesparser import GYM2008, MK1996, RobotExclusionRulesParser

from limpet.robots import parse

ROOT = Path(__file__).parents[2]
CASES = Path(os.environ.get("LIMPET_CASES") or ROOT / ".." / "shared" / "cases")
ADR = ROOT / "docs" / "adr" / "0002-own-robots-matcher.md"
EVIDENCE = ROOT / "docs" / "adr" / "0002-own-robots-matcher.json"
LEVELS = ("core", "rfc-text-only")
TABLE_BEGIN, TABLE_END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"
STAR_BODY = b"User-agent: *\nDisallow: /*a*a*a*a*a*b\n"
STAR_URL = "http://example.com/" + "a" * 200
STAR_SECONDS_MAX = 5.0

Matcher = Callable[[bytes, str, str], bool]


def _limpet(body: bytes, agent: str, url: str) -> bool:
    return parse(body).allows(agent, url)


def _protego(body: bytes, agent: str, url: str) -> bool:
    return bool(Protego.parse(body.decode("utf-8", "replace")).can_fetch(url, agent))


def _rerp(body: bytes, agent: str, url: str, syntax: int) -> bool:
    parser = RobotExclusionRulesParser()
    parser.parse(body.decode("utf-8", "replace"))
    return bool(parser.is_allowed(agent, url, syntax))


def _rerp_gym2008(body: bytes, agent: str, url: str) -> bool:
    return _rerp(body, agent, url, GYM2008)


def _rerp_mk1996(body: bytes, agent: str, url: str) -> bool:
    return _rerp(body, agent, url, MK1996)


def _urllib(body: bytes, agent: str, url: str) -> bool:
    parser = urllib.robotparser.RobotFileParser()
    parser.parse(body.decode("utf-8", "replace").splitlines())
    return parser.can_fetch(agent, url)


MATCHERS: dict[str, Matcher] = {
    "limpet.robots": _limpet,
    "protego": _protego,
    "robotexclusionrulesparser (GYM2008)": _rerp_gym2008,
    "robotexclusionrulesparser (MK1996)": _rerp_mk1996,
    "urllib.robotparser": _urllib,
}


def _cases() -> list[tuple[bytes, str, str, bool, bool]]:
    """Body, agent, URL, expected and Google's recorded verdict of every undisputed case."""
    path = CASES / "robots.json"
    if not path.is_file():
        pytest.skip("The case folder does not hold robots.json; set LIMPET_CASES to the folder that does.")
    cases = [case for case in json.loads(path.read_text("utf-8"))["cases"] if case["level"] in LEVELS]
    return [
        (
            _body(case),
            case["user_agent"],
            case["url"],
            case["expected"] == "allow",
            case["google_cpp_says"] == "allow",
        )
        for case in cases
    ]


def _body(case: dict[str, Any]) -> bytes:
    packed = case.get("robots_gz_b64")
    return gzip.decompress(base64.b64decode(packed)) if packed else str(case["robots"]).encode()


def _outcome(got: bool | None, expected: bool) -> str:
    if got is expected:
        return "pass"
    return "error" if got is None else "unsafe" if got else "over_blocks"


def _answer(matcher: Matcher, body: bytes, agent: str, url: str) -> bool | None:
    try:
        return matcher(body, agent, url)
    except Exception:  # noqa: BLE001 - whatever another library raises is its result here
        return None


@cache
def measure() -> dict[str, dict[str, int]]:
    """Passes, unsafe answers, over-blocked URLs and exceptions of each matcher."""
    columns = ("pass", "unsafe", "over_blocks", "error")
    table = {name: dict.fromkeys(columns, 0) for name in (*MATCHERS, "Google's parser (recorded)")}
    for body, agent, url, expected, google in _cases():
        for name, matcher in MATCHERS.items():
            table[name][_outcome(_answer(matcher, body, agent, url), expected)] += 1
        table["Google's parser (recorded)"][_outcome(google, expected)] += 1
    return table


def star_seconds(name: str) -> float | None:
    """Seconds a matcher takes for six stars against 200 letters, in a process of its own; None: stopped unfinished."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_star, args=(name, theirs))
    process.start()
    taken = ours.recv() if ours.poll(STAR_SECONDS_MAX) else None
    process.terminate()
    process.join()
    return taken


def _star(name: str, answer: Connection) -> None:
    start = time.perf_counter()
    MATCHERS[name](STAR_BODY, "limpet", STAR_URL)
    answer.send(round(time.perf_counter() - start, 6))


def versions() -> dict[str, str]:
    """What was measured."""
    libraries = {name: importlib.metadata.version(name) for name in ("protego", "robotexclusionrulesparser")}
    return {**libraries, "python": platform.python_version()}


def render(evidence: dict[str, Any]) -> str:
    """The ADR's table, from the evidence file alone."""
    lines = [
        "| Matcher | pass | unsafe | over-blocks | error | six stars, 200 letters |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in evidence["undisputed"].items():
        star = _star_text(evidence["star_pattern_seconds"], name)
        lines.append(f"| {name} | {row['pass']} | {row['unsafe']} | {row['over_blocks']} | {row['error']} | {star} |")
    measured = ", ".join(f"{name} {version}" for name, version in evidence["versions"].items())
    return "\n".join(lines) + f"\n\n{evidence['cases']} cases; {measured}.\n"


def _star_text(seconds: dict[str, float | None], name: str) -> str:
    if name not in seconds:
        return "not measured"
    taken = seconds[name]
    return f"stopped after {STAR_SECONDS_MAX:.0f} s" if taken is None else f"{taken * 1000:.2f} ms"


def write() -> None:
    """Measure, write the evidence, and put its table into the ADR."""
    evidence = {
        "cases": len(_cases()),
        "versions": versions(),
        "undisputed": measure(),
        "star_pattern_seconds": {name: star_seconds(name) for name in MATCHERS},
    }
    EVIDENCE.write_text(json.dumps(evidence, indent=1) + "\n", "utf-8")
    head, _, rest = ADR.read_text("utf-8").partition(TABLE_BEGIN)
    tail = rest.partition(TABLE_END)[2]
    ADR.write_text(head + TABLE_BEGIN + render(evidence) + TABLE_END + tail, "utf-8")


def test_ours_has_no_failure_and_the_others_are_measured() -> None:
    """Only our own result is a requirement; the others' stand in the table (run with -s)."""
    table = measure()
    cases = len(_cases())
    for name, row in table.items():
        print(f"{name:38}", row)  # noqa: T201 - the table is what this test is run with -s for
        assert sum(row.values()) == cases > 0
    assert table["limpet.robots"] == {"pass": cases, "unsafe": 0, "over_blocks": 0, "error": 0}


def test_the_evidence_is_what_would_be_measured_now() -> None:
    """With the versions of the evidence file, measuring again gives its counts."""
    evidence = json.loads(EVIDENCE.read_text("utf-8"))
    if evidence["versions"] != versions():
        pytest.skip(f"The evidence is for {evidence['versions']}, installed are {versions()}.")
    assert evidence["cases"] == len(_cases())
    assert evidence["undisputed"] == measure()


def test_the_adr_quotes_the_evidence() -> None:
    """No figure in the ADR's table that the evidence file does not hold."""
    quoted = ADR.read_text("utf-8").partition(TABLE_BEGIN)[2].partition(TABLE_END)[0]
    assert quoted == render(json.loads(EVIDENCE.read_text("utf-8")))


if __name__ == "__main__":
    write()
