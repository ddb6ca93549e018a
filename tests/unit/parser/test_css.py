"""What a style sheet loads."""

import time

import pytest

from limpet.parser.css import references


@pytest.mark.parametrize(
    ("sheet", "found"),
    [
        ("a{b:url(x)}", ["x"]),
        ("a{b:URL( x )}", ["x"]),
        ("a{b:url('x y')}", ["x y"]),
        ('a{b:url( "x)y" )}', ["x)y"]),
        ("a{b:url(x),url(y)}", ["x", "y"]),
        ("a{b:image-set(url(x) 1x, 'y' 2x)}", ["x"]),
        ("@font-face{src:url(a.woff2)format('woff2'),local('b')}", ["a.woff2"]),
        ("@import 'x';", ["x"]),
        ('@IMPORT"x"screen;', ["x"]),
        ("@import url(x) layer(l);", ["x"]),
        ("@import/**/url('x');", ["x"]),
        ("@import /* 'no' */ 'x';", ["x"]),
        ("@import;", []),
        ("@importx 'x';", []),
        ("@namespace url(http://www.w3.org/1999/xhtml);a{b:url(x)}", ["x"]),
        ("@namespace s 'http://n;s';@import 'x';", ["x"]),
        ("@document url(http://h/){a{b:url(x)}}", ["x"]),
        ("/* url(no) */ a{b:url(x)}", ["x"]),
        ("/* url(no)", []),
        ("a{content:'url(no)'}b{c:url(x)}", ["x"]),
        ('a{content:"\\"url(no)"}b{c:url(x)}', ["x"]),
        ("a{content:'no\nurl(x)'}", ["x"]),
        ("a{content:'no\\\nurl(no)'}", []),
        ("a{content:'no\\\r\nurl(no)'}", []),
        ("a{b:my-url(no)}", []),
        ("a{b:\\75 rl(x)}", ["x"]),
        ("a{b:u\\72l(x)}", ["x"]),
        ("a{b:\\000055RL(x)}", ["x"]),
        ("a{b:my-u\\72l(no)}", []),
        ("@\\69mport 'x';", ["x"]),
        ("@im\\70 ort 'x';", ["x"]),
        (".a\\:b{c:url(x)}", ["x"]),
        ("a{b:url(x\\)y)}", ["x)y"]),
        ("a{b:url(x\\20y)}", ["x y"]),
        ("a{b:url('x\\79')}", ["xy"]),
        ("a{b:url('x\\0')}", ["x\ufffd"]),
        ("a{b:url('x\\110000')}", ["x\ufffd"]),
        ("a{b:url(bad url) c:url(x)}", ["x"]),
        ('a{b:url(bad"url) c:url(x)}', ["x"]),
        ("a{b:url(bad(url) c:url(x)}", ["x"]),
        ("a{b:url(bad\\\n) c:url(x)}", ["x"]),
        ("a{b:url()}", []),
        ("a{b:url('')}", []),
        ("a{b:url(\\", []),
        ("a{b:url(x", ["x"]),
        ("a{b:url( x ", ["x"]),
        ("a{b:url('x", ["x"]),
        ("@import 'x", ["x"]),
        ("\\", []),
        ("@", []),
        ("", []),
        ("é{b:url(ü)}", ["ü"]),
        ("éurl(no)", []),
    ],
)
def test_references(sheet: str, found: list[str]) -> None:
    """The tokens of CSS Syntax: comments, strings, escapes, good and bad urls; at the end all that is open closes."""
    assert list(references(sheet)) == found


@pytest.mark.parametrize(
    "piece",
    [
        "url(",
        "url('",
        "url(\\",
        "/*",
        "/**/",
        "@import",
        "@import/*",
        "'",
        '"\\',
        "\\",
        "\\75 rl(",
        "@",
        "a\\",
        "url(x ",
        "@namespace'",
        "@namespace ",
        "u\\72",
        "url(x)",
        "url( ",
        "-",
        "é\\",
        "@import url(",
    ],
)
def test_time_is_linear(piece: str) -> None:
    """A megabyte of whatever is open costs what its bytes cost."""
    start = time.process_time()
    for _ in references(piece * (1_000_000 // len(piece))):
        pass
    assert time.process_time() - start < 4
