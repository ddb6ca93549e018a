"""`make bench`: the speed and memory of a whole crawl, and how soon one starts and resumes.

    PYTHONPATH=loadtest python -m scenarios.bench [--quick] [--only crawl|start|resume] [--out FILE]

Serves the `bench` web of `origin` (1,000 hosts, HTML pages of about 72 KB with 50 links, gzip), crawls it with the
`limpet` command as a user would, everything on, and reads what that cost from /proc and from the origin's log, whose
judge must find no violation. Exit codes: 0 all targets met, 1 some missed, 2 no figures (the crawl itself went wrong).
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from scenarios import speed, starting
from scenarios.calibration import gzip_ms
from scenarios.figures import PARTS, Part, Result, lines, make_quick, write_evidence

EVIDENCE = Path(__file__).resolve().parent.parent / "evidence" / "bench.json"
QUICK = {"hosts": 100, "pages": 20, "urls": 20_000, "rounds": 1}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is asked for; the exit code."""
    options = _options(arguments)
    load_before = os.getloadavg()[0]
    calibration_ms = gzip_ms()
    _say(f"load average {load_before:.2f}, one gzip of the calibration page {calibration_ms:.2f} ms")
    results = []
    try:
        for result in _results(options):
            results.append(result)
            print("\n".join(lines(result, _repeated(options))), flush=True)
            if options.out is not None:
                write_evidence(options.out, result, calibration_ms, load_before)
    except speed.BenchFailed as error:
        _say(f"no figures: {error}")
        return 2
    missed = [name for result in results for name in result.missed()]
    if missed:
        _say(f"targets missed: {', '.join(missed)}")
    return 1 if missed else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m scenarios.bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=PARTS, help="measure only this part (may be repeated)")
    parser.add_argument("--quick", action="store_true", help=f"a small form that writes no evidence: {QUICK}")
    parser.add_argument("--hosts", type=int, default=1_000, help="hosts of the web (default: %(default)s)")
    parser.add_argument("--pages", type=int, default=160, help="pages of each host (default: %(default)s)")
    parser.add_argument("--urls", type=int, default=1_000_000, help="known URLs to resume with (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="starts and resumes of each kind (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=7, help="of the web (default: %(default)s)")
    parser.add_argument("--directory", type=Path, help="work below this directory; needs 40 KB a page")
    parser.add_argument("--out", type=Path, default=EVIDENCE, help="evidence file (default: %(default)s)")
    options = parser.parse_args(arguments)
    if options.quick:
        make_quick(options, QUICK, EVIDENCE)
    return options


def _results(options: argparse.Namespace) -> Iterator[Result]:
    for part in options.only or PARTS:
        with tempfile.TemporaryDirectory(prefix=f"limpet-bench-{part}-", dir=options.directory) as directory:
            yield _result(part, Path(directory), options)


def _result(part: Part, directory: Path, options: argparse.Namespace) -> Result:
    match part:
        case "crawl":
            return speed.measure(directory, hosts=options.hosts, pages=options.pages, seed=options.seed, say=_say)
        case "start":
            return starting.start(directory, rounds=options.rounds, hosts=options.hosts, seed=options.seed, say=_say)
        case "resume":
            return starting.resume(
                directory, rounds=options.rounds, hosts=options.hosts, urls=options.urls, seed=options.seed, say=_say
            )


def _repeated(options: argparse.Namespace) -> str:
    return " --quick" if options.quick else ""


def _say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
