"""Character references in attribute values."""

import html

import pytest

from limpet.parser.entities import unescape_attribute


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("?a=1&amp;b=2", "?a=1&b=2"),
        ("?a=1&b=2", "?a=1&b=2"),
        ("?a=1&copy=2", "?a=1&copy=2"),
        ("?a=1&copy2", "?a=1&copy2"),
        ("?a=1&copy", "?a=1©"),
        ("?a=1&copy&reg/", "?a=1©®/"),
        ("&copy;=1", "©=1"),
        ("&notit;", "&notit;"),
        ("&notin;", "∉"),
        ("&amp;amp;", "&amp;"),
        ("&&amp;&", "&&&"),
        ("&NotEqualTilde;", "≂̸"),
        ("&nosuch;&nosuch", "&nosuch;&nosuch"),
        ("&#65;&#x42;&#X43&#68", "ABCD"),
        ("&#0;&#xD800;&#x110000;&#99999999999999999999;", "\ufffd" * 4),
        ("&#0000000000000000065;", "A"),
        ("&#150;", "–"),  # noqa: RUF001  (windows-1252 0x96 is an en dash)
        ("&#129;", "\x81"),
        ("&#;&#x;&#xg;&", "&#;&#x;&#xg;&"),
        ("", ""),
    ],
)
def test_references_follow_the_rule_for_attributes(written: str, text: str) -> None:
    """Without a semicolon a name counts only when no letter, digit or = follows; numbers never yield surrogates."""
    assert unescape_attribute(written) == text


def test_every_named_reference_is_known() -> None:
    """The whole table of the standard, semicolon written."""
    for name in html.entities.html5:
        if name.endswith(";"):
            assert unescape_attribute("&" + name) == html.entities.html5[name]
