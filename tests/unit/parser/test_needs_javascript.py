"""Which pages are marked as needing JavaScript."""

import time
import tracemalloc

import pytest

from limpet.parser.javascript import FLAG, needs_javascript
from unit.parser.pages import NOTHING_MORE, parsed

TEXT = "<p>Tides turn twice a day, and a little later every day. " * 12
APP = "<script src=/app.js></script>"


@pytest.mark.parametrize(
    "body",
    [
        f"<title>A</title><noscript>You need to enable JavaScript to run this app.</noscript><div id=root></div>{APP}",
        f"<div id=app></div>{APP}",
        f"<div id='__next'> <!-- --> </div>{APP}",
        f"<title>x</title><app-root></app-root>{APP}",
        f"<p>Loading, please wait</p><main id=app class=x></main>{APP}<footer>Example Ltd, rights reserved</footer>",
        f"<noscript><p>Bitte Java-Script einschalten</p></noscript><p>Loading the catalogue of our collection{APP}",
        "<html><head><script>location.href='/x'</script></head></html>",
        "<script>document.write(atob('PGE+'))</script>",
        "<script>" + "x" * 100_000,
        f"<style>{'p{}' * 1000}</style><svg><path d='{'1' * 1000}'/></svg>{APP}",
        f"<a href=/imprint>Imprint</a><div id=root></div>{APP}",
    ],
)
def test_marked(body: str) -> None:
    """Shells of applications, interstitials, notes to those without."""
    assert FLAG in parsed(body, wants=NOTHING_MORE).flags


@pytest.mark.parametrize(
    "body",
    [
        "",
        "<p>short",
        "<img src=/x>",
        TEXT,
        f"<div id=root></div>{APP}{TEXT}",
        f"<div id=root>{TEXT}</div>{APP}",
        f"<noscript>Enable JavaScript to see comments</noscript>{APP}{TEXT}",
        f"<div id=root></div>{APP}" + "".join(f"<a href=/{n}>" for n in range(6)),
        f"<div id=root><p>text</p></div>{APP}<p>One line of text that is longer than nothing, and then some more.",
        f"<div id=roots></div>{APP}<p>One line of text that is longer than nothing, and then some more.",
        f"<a href=/x>x</a>{APP}",
        "<div id=root></div>",
        "<noscript>Please enable JavaScript</noscript>",
    ],
)
def test_not_marked(body: str) -> None:
    """Pages with text or links to follow, and small ones without a script."""
    assert FLAG not in parsed(body, wants=NOTHING_MORE).flags


@pytest.mark.parametrize(
    "piece",
    [
        b"<a",
        b"<a ",
        b"<!--",
        b"<script>",
        b"<a<",
        b"<",
        b"</",
        b"<x-y></x-y>",
        b"<title>",
        b"<script></script>",
        b"<svg>",
    ],
)
def test_time_is_linear(piece: bytes) -> None:
    """A megabyte of open tags costs what its bytes cost."""
    start = time.process_time()
    needs_javascript(piece * (1_000_000 // len(piece)), 0)
    assert time.process_time() - start < 4


def test_memory_is_that_of_the_page() -> None:
    """Text is counted, not taken apart: words cost twenty times their bytes."""
    page = b"<p>" + b"aa " * 300_000
    tracemalloc.start()
    needs_javascript(page, 0)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 3 * len(page)
