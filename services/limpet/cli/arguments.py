"""The command line as data: every verb, every flag, and one-line errors instead of argparse's page."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn, TypeAlias

from limpet.cli.naming import NO_WORDS, Words, add_naming, settle
from limpet.cli.units import parse_count, parse_duration, parse_size
from limpet.model.errors import UsageError
from limpet.model.lifecycle import State

SCOPES: Final = ("page", "host", "domain", "prefix", "any")
ROLES: Final = ("crawlnode", "parser", "admission", "reconciler")
REPORTS: Final = ("host", "status", "mime", "reason")
WORKERS_MAX: Final = 32
VERBS: Final = {
    "crawl": "crawl",
    "add": "owning",
    "status": "listing",
    "urls": "listing",
    "show": "show",
    "failures": "listing",
    "log": "log",
    "report": "report",
    "hosts": "hosts",
    "verify": "checks",
    "audit": "checks",
    "reconcile": "reconcile",
    "init": "cluster",
    "run": "cluster",
    "pull": "pull",
    "rebuild-seen": "rebuild",
}
"""Each verb with the module of this package that holds its function, which has the verb's name (`_` for `-`)."""
PROGRAM: Final = "limpet"
_EXIT_CODES: Final = """\
exit codes: 0 done · 1 findings · 2 usage or configuration · 3 ended with failed seeds or waiting URLs
            4 could not go on (disk, store) · 130 interrupted"""
_CRAWL_HELP: Final = """\
Crawls from the URLs into DIR, or resumes the crawl that DIR holds: after a clean stop, Ctrl-C, kill -9 or a power cut
alike. Scope and identity are stored with the crawl; all else may change from run to run."""
_CRAWL_EXAMPLES: Final = """\
examples:
  limpet crawl https://example.org/ --into example --contact me@example.org
  limpet crawl --into example                            go on where it stopped
  limpet crawl https://example.org/ --into docs --include /docs/ --exclude '[?&]print=' --contact me@example.org
  limpet crawl http://127.0.0.1:8000/ --owned 127.0.0.1 --into local
"""


_HOSTS: Final = """\
A running crawl, in a folder or on a cluster, obeys within seconds, one that does not run when it starts again. No order
makes a crawl ask more often.
  limpet hosts DIR                       every host: its gap and why, when it may be asked next, how much waits
  limpet hosts DIR pause HOST            send nothing; its URLs wait
  limpet hosts DIR slow HOST --gap 30s   at least so long between two requests
  limpet hosts DIR block HOST            take all its URLs out: cancelled(operator)
  limpet hosts DIR block URL             the same for all URLs of that host which begin like this one
  limpet hosts DIR resume HOST|URL       take these orders back
"""


_WALK: Final = "With --config this reads every row of the keyspace once, in the order of its token ring."

_COPY: Final = """\
With --config the rows are copied first, into --into DIR or a temporary folder (TMPDIR); segments are read where they
are. For a crawl at rest: of a running one, rows and records may be of two moments.
"""


class _Parser(argparse.ArgumentParser):
    """Argparse whose complaints are errors of ours: one line, exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError` instead of printing the usage and leaving."""
        raise UsageError(f"{message} (see `{self.prog} --help`)")


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """The namespace of one call; `verb` names the command. Raises `UsageError`; --help and --version leave."""
    parser = build_parser()
    arguments, rest = parser.parse_known_args(argv)
    loose = next((name for name in ("urls", "words") if hasattr(arguments, name)), "")
    if any(word.startswith("-") and word != "-" for word in rest) or (rest and not loose):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:  # argparse takes positionals in one run only; URLs may stand between flags
        setattr(arguments, loose, [*getattr(arguments, loose), *rest])
    if hasattr(arguments, "takes"):
        settle(arguments)
    return arguments


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = _Parser(
        prog=PROGRAM,
        description="A polite web crawler that loses nothing.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=_version())
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    _add_crawl(verbs)
    _add_status(verbs)
    _add_urls(verbs)
    _add_show(verbs)
    _add_failures(verbs)
    _add_log(verbs)
    _add_report(verbs)
    _add_hosts(verbs)
    _add_add(verbs)
    _add_verify(verbs)
    _add_audit(verbs)
    _add_reconcile(verbs)
    _add_init(verbs)
    _add_run(verbs)
    _add_pull(verbs)
    _add_rebuild_seen(verbs)
    return parser


_Verbs: TypeAlias = "argparse._SubParsersAction[_Parser]"  # noqa: SLF001 - argparse has no public name for it


def _verb(
    verbs: _Verbs, name: str, summary: str, *, description: str = "", epilog: str = ""
) -> argparse.ArgumentParser:
    return verbs.add_parser(
        name,
        help=summary,
        description=description or summary[0].upper() + summary[1:] + ("" if summary.endswith("?") else "."),
        epilog=epilog or None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _add_crawl(verbs: _Verbs) -> None:
    crawl = _verb(verbs, "crawl", "crawl into a folder, or resume", description=_CRAWL_HELP, epilog=_CRAWL_EXAMPLES)
    _add_sources(crawl)
    crawl.add_argument("--into", type=Path, required=True, metavar="DIR", help="the crawl folder; made if absent")
    _add_facts(crawl)
    _add_limits(crawl)
    crawl.add_argument("--json", action="store_true", help="print the summary as JSON, and nothing else")
    loud = crawl.add_mutually_exclusive_group()
    loud.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    loud.add_argument("-v", "--verbose", action="store_true", help="log more to DIR/run/worker-N.log")


def _add_facts(crawl: argparse.ArgumentParser) -> None:
    facts = crawl.add_argument_group("stored with the crawl (a resume may repeat them, not change them)")
    facts.add_argument("--scope", choices=SCOPES, help="what belongs to the crawl, seen from each seed (default: host)")
    facts.add_argument("--depth", type=_typed(_depth), metavar="N", help="follow at most N links from a seed")
    for flag, what in (("--include", "follow only links that match"), ("--exclude", "fetch nothing that matches")):
        facts.add_argument(
            flag, action="append", metavar="REGEX", help=f"{what} (RE2, anywhere in the URL; repeatable)"
        )
    facts.add_argument(
        "--no-requisites", action="store_true", default=None, help="leave out images, style sheets and scripts"
    )
    facts.add_argument("--agent", metavar="TOKEN", help="name that robots.txt knows us by (default: limpet)")
    facts.add_argument("--contact", metavar="C", help="mail address or URL where a site owner reaches you")
    facts.add_argument("--exact-urls", action="store_true", default=None, help="keep utm_*, gclid and fbclid apart")
    facts.add_argument("--drop-session-ids", action="store_true", default=None, help="ignore PHPSESSID and the like")
    facts.add_argument("--replicas", type=int, choices=(1, 2, 3), help="write each segment to so many directories")


def _add_limits(crawl: argparse.ArgumentParser) -> None:
    kept = crawl.add_argument_group("remembered until another run says otherwise")
    kept.add_argument("--delay", type=_typed(parse_duration), metavar="S", help="least pause between two requests")
    kept.add_argument("--budget", type=_typed(parse_count), metavar="N", help="requests a UTC day (0: no budget)")
    kept.add_argument("--host-limit", type=_typed(_positive), metavar="N", help="URLs of a host; more are parked")
    kept.add_argument("--size-limit", type=_typed(_size), metavar="SIZE", help="cut bodies on the wire after SIZE (1G)")
    kept.add_argument("--owned", action="append", default=[], metavar="CIDR|HOST", help="yours (repeatable)")
    kept.add_argument("--proxy", metavar="URL", help="connect through http://HOST:PORT; '' ends it")
    kept.add_argument("--proxy-credentials", metavar="FILE", help="file with user:password for the proxy")
    kept.add_argument(
        "--accept-invalid-cert",
        action="append",
        default=[],
        metavar="HOST",
        help="take HOST's TLS certificate as it is",
    )
    kept.add_argument("--config", type=Path, metavar="F", help="TOML file with settings (see docs/configuration.md)")
    limits = crawl.add_argument_group("of this run only")
    limits.add_argument("--limit", type=_typed(_positive), metavar="N", help="stop at N fetched documents in all")
    limits.add_argument("--time-limit", type=_typed(parse_duration), metavar="D", help="stop after D (90s, 10m, 2h)")
    limits.add_argument(
        "--patience", type=_typed(parse_duration), metavar="D", default=600.0, help="wait so long for URLs (10m)"
    )
    limits.add_argument("--min-free", type=_typed(parse_size), metavar="SIZE", help="leave so much disk free (200M)")
    limits.add_argument("--workers", type=_typed(_workers), metavar="N", help="worker processes (default: cores, ≤ 4)")


def _add_sources(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("urls", nargs="*", metavar="URL", help="where to begin")
    _add_input(verb)


def _add_input(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "-i", "--input", action="append", default=[], metavar="FILE", help="file of URLs, one a line, - for stdin"
    )


def _listing(verbs: _Verbs, name: str, summary: str) -> argparse.ArgumentParser:
    verb = _verb(verbs, name, summary)
    verb.add_argument("folder", type=Path, metavar="DIR", help="the crawl folder")
    verb.add_argument("--json", action="store_true", help="print JSON")
    return verb


def _placed(
    verbs: _Verbs, name: str, summary: str, words: Words = NO_WORDS, *, epilog: str = ""
) -> argparse.ArgumentParser:
    """A verb over a crawl that lies in a folder or on a cluster."""
    verb = _verb(verbs, name, summary, epilog=epilog)
    add_naming(verb, words)
    verb.add_argument("--json", action="store_true", help="print JSON")
    return verb


def _add_status(verbs: _Verbs) -> None:
    _placed(verbs, "status", "counts of a crawl, also while it runs")


def _add_urls(verbs: _Verbs) -> None:
    urls = _placed(verbs, "urls", "list the URLs of a crawl, one a line", epilog=_WALK)
    urls.add_argument("--state", choices=[state.value for state in State], help="only those in this state")


def _add_show(verbs: _Verbs) -> None:
    _placed(verbs, "show", "all that is known of one URL", Words("URL", 1, 1, "urls"))


def _add_failures(verbs: _Verbs) -> None:
    failures = _placed(verbs, "failures", "list what failed or is parked, and why, or try it again", epilog=_WALK)
    failures.add_argument(
        "--retry", action="store_true", help="make all of it due again (a crawl in a folder must not run)"
    )


def _add_log(verbs: _Verbs) -> None:
    log = _placed(verbs, "log", "one line a capture, as Heritrix's crawl.log has it", epilog=_WALK)
    log.add_argument("-f", "--follow", action="store_true", help="go on with what comes, until interrupted")


def _add_report(verbs: _Verbs) -> None:
    report = _placed(verbs, "report", "URLs, fetches and bytes by host, status, content type or reason", epilog=_WALK)
    report.add_argument("--by", choices=REPORTS, required=True, help="what to count by")


def _add_hosts(verbs: _Verbs) -> None:
    hosts = _placed(
        verbs,
        "hosts",
        "why hosts wait; pause, slow or block one",
        Words("[[pause|slow|block|resume] HOST]", 0, 2),
        epilog=_HOSTS,
    )
    hosts.add_argument("--gap", type=_typed(parse_duration), metavar="S", help="with slow: least time between requests")


def _add_add(verbs: _Verbs) -> None:
    add = _verb(verbs, "add", "add URLs to a crawl: to a folder that does not run, or to a cluster's at any time")
    add_naming(add, Words("[URL …]", 0, sys.maxsize, "urls"))
    _add_input(add)
    add.add_argument("--owned", action="append", default=[], metavar="CIDR|HOST", help="yours, remembered")
    add.add_argument("--json", action="store_true", help="print JSON")


def _add_config(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--config", type=Path, metavar="F", required=True, help="the cluster's limpet.toml")


def _add_init(verbs: _Verbs) -> None:
    init = _verb(verbs, "init", "lay a crawl out on a cluster's servers; may be repeated")
    _add_config(init)
    init.add_argument("--json", action="store_true", help="print JSON")


def _add_run(verbs: _Verbs) -> None:
    run = _verb(verbs, "run", "serve one role of a cluster, until SIGTERM")
    run.add_argument("role", choices=ROLES, metavar="ROLE", help=", ".join(ROLES))
    _add_config(run)
    run.add_argument("--http", metavar="HOST:PORT", help="where /live and /ready answer (in place of cluster.http)")
    run.add_argument("-v", "--verbose", action="store_true", help="log more")


def _add_pull(verbs: _Verbs) -> None:
    pull = _verb(verbs, "pull", "copy a cluster's crawl, at rest, into a folder that every other verb reads")
    _add_config(pull)
    pull.add_argument("--into", type=Path, required=True, metavar="DIR", help="the folder; made if absent")
    pull.add_argument("--json", action="store_true", help="print JSON")


def _add_rebuild_seen(verbs: _Verbs) -> None:
    rebuild = _verb(
        verbs, "rebuild-seen", "mark the rows of a cluster's crawl as seen, e.g. after a seen shard was lost"
    )
    _add_config(rebuild)
    rebuild.add_argument("--shard", type=_typed(parse_count), metavar="N", help="only this one (default: all)")
    rebuild.add_argument("--json", action="store_true", help="print JSON")


def _judging(verbs: _Verbs, name: str, summary: str) -> argparse.ArgumentParser:
    verb = _placed(verbs, name, summary, epilog=_COPY)
    verb.add_argument("--into", type=Path, metavar="DIR", help="with --config: keep the copy of the rows here")
    return verb


def _add_verify(verbs: _Verbs) -> None:
    verify = _judging(verbs, "verify", "is the archive intact, and is every row backed by a record?")
    verify.add_argument("--links", action="store_true", help="also parse stored bodies again and look for lost links")


def _add_audit(verbs: _Verbs) -> None:
    _judging(verbs, "audit", "were we polite? Judges every fetch again from the archive")


def _add_reconcile(verbs: _Verbs) -> None:
    _placed(verbs, "reconcile", "compare what belongs together; a folder at rest is repaired first")


def _typed(parse: Callable[[str], object]) -> Callable[[str], object]:
    """Let argparse name the flag, and our own text say what is wrong with the value."""

    def convert(text: str) -> object:
        try:
            return parse(text)
        except UsageError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return convert


def _positive(text: str) -> int:
    number = parse_count(text)
    if number < 1:
        raise UsageError("at least 1 is needed")
    return number


def _size(text: str) -> int:
    size_bytes = parse_size(text)
    if size_bytes < 1:
        raise UsageError("at least 1 byte is needed")
    return size_bytes


def _depth(text: str) -> int:
    return parse_count(text)


def _workers(text: str) -> int:
    number = _positive(text)
    if number > WORKERS_MAX:
        raise UsageError(f"at most {WORKERS_MAX} workers, one for each shard")
    return number


def _version() -> str:
    from importlib.metadata import version  # noqa: PLC0415 - slow to import, and rarely asked for

    return f"limpet {version('limpet-crawler')}"
