"""`limpet report`: how many URLs, fetches and bytes, by host, status, content type or reason."""

import argparse
from typing import Any, Final

from limpet.cli.opening import open_view
from limpet.cli.printing import print_json, print_lines
from limpet.cli.units import show_bytes, show_count
from limpet.embedded.sums import Sum

REJECTED: Final = "left out "
ROBOTS: Final = "robots.txt "


def report(arguments: argparse.Namespace) -> int:
    """Print the sums, the largest first."""
    by: str = arguments.by
    with open_view(arguments) as view:
        lines = sorted(view.sums(by).items(), key=lambda item: (-item[1].urls, -item[1].fetches, item[0]))
        left_out = dict(view.rejected().most_common()) if by == "reason" else {}
        odd = view.odd_robots() if by == "reason" else {}
    if arguments.json:
        odd_json = [{"reason": f"{ROBOTS}{oddity}", "servers": servers} for oddity, servers in odd.items()]
        print_json([_as_json(by, name, total) for name, total in lines] + _left_out_json(left_out) + odd_json)
    else:
        print_lines([f"{by}\tURLs\tfetches\tbytes", *(_line(by, *item) for item in lines)])
        print_lines(f"{REJECTED}{rule}\t{links:,} links\t-\t-" for rule, links in left_out.items())
        print_lines(f"{ROBOTS}{oddity}\t{show_count(servers, 'server')}\t-\t-" for oddity, servers in odd.items())
    return 0


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
