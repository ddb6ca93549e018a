"""Command line: `serve` a web, `judge` a log, tell what is `expected` of a web."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from origin.events import read_events
from origin.judge import Policy, Verdict, examine
from origin.serve import serve
from origin.visits import requests_by_url
from origin.web import Option, options_of
from origin.webs import WEBS, make_web


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 done, 1 violations found, 2 usage."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    try:
        match chosen.command:
            case "serve":
                return _serve(chosen)
            case "judge":
                return _judge(chosen)
            case _:
                return _expected(chosen)
    except (ValueError, LookupError, OSError) as error:
        parser.error(str(error))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m origin", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    serving = commands.add_parser("serve", help="serve a web on loopback until SIGTERM")
    _add_web_options(serving)
    serving.add_argument("--log", type=Path, help="append events to this file")
    serving.add_argument("--date-skew", type=float, default=0.0, help="seconds by which Date headers are wrong")
    serving.add_argument("--until-stdin-closes", action="store_true", help="stop when standard input ends")
    _add_web_options(commands.add_parser("expected", help="print each URL of a web with what it must end as"))
    judging = commands.add_parser("judge", help="judge a crawler's politeness from a log")
    judging.add_argument("log", type=Path)
    judging.add_argument("--agent", default="limpet", help="product token (default: %(default)s)")
    judging.add_argument("--floor", type=float, help="least gap in seconds (default: 1, owned 0)")
    judging.add_argument("--owned", action="store_true", help="no default floor, no multiple of the response time")
    judging.add_argument("--tolerance", type=float, default=0.010, help="seconds of timer jitter forgiven")
    judging.add_argument("--grace-after-kill", type=_instants, default=(), metavar="T,T", help="monotonic seconds")
    judging.add_argument("--residual", type=float, default=1.0, help="seconds a Retry-After may be unwritten")
    judging.add_argument("--takeover", type=float, default=0.0, help="seconds a host cut off by a kill is left alone")
    judging.add_argument("--json", action="store_true")
    return parser


def _add_web_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--web", required=True, choices=sorted(WEBS))
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--port", type=int, default=0)
    options: dict[str, list[str]] = {}
    for name, web in WEBS.items():
        for option, default in options_of(web).items():
            options.setdefault(option, []).append(f"{name} {default}")
    for option, defaults in sorted(options.items()):
        parser.add_argument(f"--{option.replace('_', '-')}", dest=f"web_{option}", help=", ".join(defaults))


def _web_options(chosen: argparse.Namespace) -> dict[str, Option]:
    """The options given, each of the type of its default. ValueError if a value is of another type."""
    known = options_of(WEBS[chosen.web])
    given = {name[4:]: value for name, value in vars(chosen).items() if name.startswith("web_")}
    return {name: _typed(known.get(name, ""), name, value) for name, value in given.items() if value is not None}


def _typed(default: Option | str, name: str, value: str) -> Option:
    if isinstance(default, bool):
        if value.lower() not in ("true", "false"):
            raise ValueError(f"--{name} takes true or false, not {value!r}")
        return value.lower() == "true"
    return int(value) if isinstance(default, int) else float(value)


def _instants(text: str) -> tuple[int, ...]:
    return tuple(int(float(part) * 1e9) for part in text.split(",") if part)


def _serve(chosen: argparse.Namespace) -> int:
    serve(
        chosen.web,
        seed=chosen.seed,
        port=chosen.port,
        log_path=chosen.log,
        options=_web_options(chosen),
        date_skew_seconds=chosen.date_skew,
        until_stdin_closes=chosen.until_stdin_closes,
    )
    return 0


def _expected(chosen: argparse.Namespace) -> int:
    web = make_web(chosen.web, seed=chosen.seed, port=chosen.port, **_web_options(chosen))
    sys.stdout.write(json.dumps(web.expected(), indent=1) + "\n")
    return 0


def _judge(chosen: argparse.Namespace) -> int:
    events = read_events(chosen.log)
    policy = Policy(
        agent=chosen.agent,
        floor_seconds=chosen.floor,
        owned=chosen.owned,
        tolerance_seconds=chosen.tolerance,
        kills_ns=chosen.grace_after_kill,
        residual_seconds=chosen.residual,
        takeover_seconds=chosen.takeover,
    )
    verdict = examine(events, policy)
    repeated = {url: count for url, count in requests_by_url(events).items() if count > 1}
    if chosen.json:
        print(json.dumps({**asdict(verdict), "repeated": repeated}))
    else:
        _print(verdict, len(repeated))
    return 1 if verdict.violations else 0


def _print(verdict: Verdict, repeated: int) -> None:
    for found in verdict.violations + verdict.residuals:
        print(f"{found.kind}\t{found.host}\t{found.detail}")
    print(
        f"{verdict.requests} requests to {verdict.hosts} hosts, {repeated} URLs more than once: "
        f"{len(verdict.violations)} violations, {len(verdict.residuals)} residual"
    )


if __name__ == "__main__":
    sys.exit(main())
