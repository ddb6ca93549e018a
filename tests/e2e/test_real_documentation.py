"""Documentation that Debian ships, served by nginx: Limpet finds exactly the pages that `wget -r -l inf` finds.

Both are judged by the server's own access log. What one finds and the other does not must be explained by a rule of
`RULES`, each of which is one known difference between the two programs, checked on the URL at hand.
"""

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pytest

from e2e.command import LIMPET
from e2e.nginx import Answer, Nginx, tool
from limpet.model.lifecycle import State

pytestmark = pytest.mark.slow

DOCS = Path("/usr/share/doc")
SECONDS_MAX = 600
_STRAY_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True)
class Documentation:
    """A package, where its HTML lies (a pattern, since some names hold a version) and the page that leads to all."""

    package: str
    pattern: str
    start: str
    pages_min: int

    def root(self) -> Path:
        """The directory to serve. Skips the test where the package is not installed."""
        found = sorted(path for path in DOCS.glob(self.pattern) if (path / self.start.lstrip("/")).is_file())
        if not found:
            pytest.skip(f"the documentation of {self.package} is not installed: apt-get install {self.package}")
        return found[-1]


PACKAGES = (
    Documentation("python3-doc", "python3-doc/html", "/index.html", 400),
    Documentation("libboost-doc", "libboost1.*-doc", "/doc/html/index.html", 2000),
)


@dataclass(frozen=True)
class Crawl:
    """One program's crawl: what it asked for, and how long it took."""

    asked: dict[str, Answer]
    seconds: float

    @property
    def pages(self) -> set[str]:
        """Targets answered with an HTML page."""
        return {target for target, answer in self.asked.items() if answer.status == 200 and answer.is_html}


@dataclass(frozen=True)
class Both:
    """The two crawls, and Limpet's own account of its one: URL -> state."""

    wget: Crawl
    limpet: Crawl
    states: dict[str, State]


@dataclass(frozen=True)
class Rule:
    """One difference between the programs. `explains` tells whether it is the reason for this target."""

    reason: str
    explains: Callable[[str, Both], bool]


def _stray_percent(target: str, both: Both) -> bool:
    """The page that wget got was asked for by Limpet too, spelt as a browser spells it, and refused by the server."""
    as_linked = [spelt for spelt in both.states if _STRAY_PERCENT.search(spelt) and _mended(spelt) == target]
    return any(both.states[spelt] is State.GONE for spelt in as_linked)


def _mended(target: str) -> str:
    return _STRAY_PERCENT.sub("%25", target)


ONLY_WGET = (
    Rule(
        "a link with a bare % in it: wget writes %25, browsers and Limpet send it as it is (URL Standard, path state), "
        "and nginx answers 400 to that",
        _stray_percent,
    ),
)
ONLY_LIMPET: tuple[Rule, ...] = ()


@pytest.fixture(scope="module", params=PACKAGES, ids=lambda documentation: documentation.package)
def documentation(request: pytest.FixtureRequest) -> Documentation:
    """Each package in turn."""
    found: Documentation = request.param
    return found


@pytest.fixture(scope="module")
def folder(documentation: Documentation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Limpet crawls into."""
    return tmp_path_factory.mktemp(documentation.package) / "crawl"


@pytest.fixture(scope="module")
def both(documentation: Documentation, folder: Path) -> Both:
    """The documentation, crawled by both programs one after the other."""
    root = documentation.root()
    for name in ("nginx", "wget"):
        tool(name)
    with Nginx(folder.parent / "nginx", root) as nginx:
        start = nginx.url(documentation.start)
        wget = [tool("wget"), "-r", "-l", "inf", "-q", "--delete-after", "-P", str(folder.parent), start]
        wget_seconds = _timed(wget, exit_codes={0, 8})  # 8: some answers were errors
        limpet = [*LIMPET, "crawl", start, "--into", str(folder), "--owned", "127.0.0.1", "-q"]
        limpet_seconds = _timed(limpet, exit_codes={0})
    states = {
        url.removeprefix(nginx.url("")): state
        for state in State
        for url in _output([*LIMPET, "urls", str(folder), "--state", state]).splitlines()
    }
    return Both(Crawl(nginx.asked("wget"), wget_seconds), Crawl(nginx.asked("limpet"), limpet_seconds), states)


def test_limpet_finds_the_pages_that_wget_finds(
    documentation: Documentation, both: Both, capsys: pytest.CaptureFixture[str]
) -> None:
    """URL for URL; every difference has exactly one explanation, and none is left over in either direction."""
    only_wget, only_limpet = both.wget.pages - both.limpet.pages, both.limpet.pages - both.wget.pages
    reasons = {target: _reasons(target, both, ONLY_WGET) for target in only_wget}
    reasons |= {target: _reasons(target, both, ONLY_LIMPET) for target in only_limpet}
    with capsys.disabled():
        sys.stdout.write("\n".join(["", *_told(documentation, both, reasons), ""]))
    assert len(both.limpet.pages) >= documentation.pages_min
    assert {target: found for target, found in reasons.items() if len(found) != 1} == {}


def test_what_limpet_tells_is_what_the_server_saw(both: Both) -> None:
    """A row that says fetched was answered 200, one that says gone 4xx, and nothing was asked for without a row."""
    asked = {target: answer.status for target, answer in both.limpet.asked.items() if target != "/robots.txt"}
    for target, status in asked.items():
        assert both.states[target] is (State.FETCHED if status < 400 else State.GONE), (target, status)
    unseen = both.states.keys() - asked.keys()
    assert {target for target in unseen if not _STRAY_PERCENT.search(target)} == set()  # nginx logs no such target
    assert set(both.states.values()) == {State.FETCHED, State.GONE}


def test_neither_asks_for_what_robots_txt_disallows(both: Both) -> None:
    """Both read the robots.txt of the server."""
    for crawl in (both.wget, both.limpet):
        assert "/robots.txt" in crawl.asked
        assert not [target for target in crawl.asked if unquote(target).startswith("/private/")]


@pytest.mark.parametrize("verb", [("verify",), ("verify", "--links"), ("audit",)], ids=" ".join)
def test_the_archive_is_good(both: Both, folder: Path, verb: tuple[str, ...]) -> None:
    """`verify` finds every record, `verify --links` no lost link, `audit` no impolite request."""
    assert both.limpet.pages
    done = subprocess.run([*LIMPET, verb[0], str(folder), *verb[1:]], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def _told(documentation: Documentation, both: Both, reasons: dict[str, list[str]]) -> Iterator[str]:
    """Counts and durations, then every difference with its explanation."""
    for name, crawl in (("wget", both.wget), ("limpet", both.limpet)):
        yield f"{documentation.package}: {name} found {len(crawl.pages):,} pages in {crawl.seconds:.1f} s"
    for target, found in sorted(reasons.items()):
        whose = "wget" if target in both.wget.pages else "limpet"
        yield f"  only {whose}: {target}: {'; '.join(found) or 'UNEXPLAINED'}"


def _reasons(target: str, both: Both, rules: tuple[Rule, ...]) -> list[str]:
    return [rule.reason for rule in rules if rule.explains(target, both)]


def _timed(command: list[str], *, exit_codes: set[int]) -> float:
    """Seconds that a command takes, which must end with one of the codes."""
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert done.returncode in exit_codes, done.stderr
    return time.perf_counter() - began


def _output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=True).stdout
