"""`limpet report`: how many URLs, fetches and bytes, by host, status, content type or reason."""

import argparse
from typing import Any, Final

from limpet.cli.opening import open_crawl
from limpet.cli.printing import print_json, print_lines
from limpet.cli.reading import rejects_by_rule
from limpet.cli.units import show_bytes, show_count
from limpet.embedded.folder import Folder
from limpet.embedded.sums import Sum, by_host, by_mime, by_reason, by_status, odd_robots
from limpet.embedded.views import ShardViews

_SUMS: Final = {"host": by_host, "status": by_status, "mime": by_mime, "reason": by_reason}
REJECTED: Final = "left out "
ROBOTS: Final = "robots.txt "


def report(arguments: argparse.Namespace) -> int:
    """Print the sums, the largest first."""
    folder = open_crawl(arguments.folder)
    by: str = arguments.by
    found = _SUMS[by](folder)
    lines = sorted(found.items(), key=lambda item: (-item[1].urls, -item[1].fetches, item[0]))
    left_out = _left_out(folder) if by == "reason" else {}
    odd = odd_robots(folder) if by == "reason" else {}
    if arguments.json:
        odd_json = [{"reason": f"{ROBOTS}{oddity}", "servers": servers} for oddity, servers in odd.items()]
        print_json([_as_json(by, name, total) for name, total in lines] + _left_out_json(left_out) + odd_json)
    else:
        print_lines([f"{by}\tURLs\tfetches\tbytes", *(_line(by, *item) for item in lines)])
        print_lines(f"{REJECTED}{rule}\t{links:,} links\t-\t-" for rule, links in left_out.items())
        print_lines(f"{ROBOTS}{oddity}\t{show_count(servers, 'server')}\t-\t-" for oddity, servers in odd.items())
    return 0


def _left_out(folder: Folder) -> dict[str, int]:
    """Links that rules turned away have no row; they are told of all the same."""
    with ShardViews(folder) as views:
        return dict(rejects_by_rule(views).most_common())


def _left_out_json(left_out: dict[str, int]) -> list[dict[str, Any]]:
    return [{"reason": f"{REJECTED}{rule}", "links": links} for rule, links in left_out.items()]


def _line(by: str, name: str, total: Sum) -> str:
    fetches = "-" if by == "reason" else f"{total.fetches:,}"
    size = "-" if by == "reason" else show_bytes(total.wire_bytes)
    return "\t".join((name.replace("\t", " "), f"{total.urls:,}", fetches, size))


def _as_json(by: str, name: str, total: Sum) -> dict[str, Any]:
    fields: dict[str, Any] = {by: name, "urls": total.urls}
    if by != "reason":
        fields |= {"fetches": total.fetches, "bytes": total.wire_bytes}
    return fields | ({"states": total.states} if by == "host" else {})
