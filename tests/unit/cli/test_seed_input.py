import io
from pathlib import Path

import pytest

from limpet.cli.seeds import Entry, check_entries, check_url, read_entries, read_list
from limpet.model.errors import UsageError


def test_a_list_holds_one_url_a_line_with_comments() -> None:
    """Blank lines and comment lines do not count; what is left knows its line."""
    text = b"\xef\xbb\xbf# seeds\nhttp://a.example/\r\n\n  http://b.example/#part  \n"
    entries = list(read_list(io.BytesIO(text), "list.txt"))
    assert entries == [Entry("http://a.example/", "list.txt:2"), Entry("http://b.example/#part", "list.txt:4")]


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"http://a.example/\n\xff\xfe\n", r"list:2: not UTF-8 text \(byte 0xff\)"),
        (b"http://a.example/\x00\n", r"list:1: not text \(a zero byte\)"),
        (b"\x7fELF\x02\x01\x01\x00\x00", r"list:1: not text \(a zero byte\)"),
        (b"x" * 70_000, r"list:1: the line is longer"),
        (b"# nothing\n\n", r"list holds no URL"),
        (b"", r"list holds no URL"),
    ],
)
def test_a_list_that_is_none_is_refused_by_name_and_line(data: bytes, complaint: str) -> None:
    """Binary files, over-long lines and empty lists get one line that names the place."""
    with pytest.raises(UsageError, match=complaint):
        list(read_list(io.BytesIO(data), "list"))


def test_an_unreadable_list_is_named(tmp_path: Path) -> None:
    """A missing file and a directory are told apart from a bad URL."""
    with pytest.raises(UsageError, match=r"cannot read .*none\.txt: No such file"):
        list(read_entries([], [str(tmp_path / "none.txt")]))
    with pytest.raises(UsageError, match=r"cannot read .*: Is a directory"):
        list(read_entries([], [str(tmp_path)]))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("example.org", r"'example\.org' is not an http or https URL: write https://example\.org/$"),
        ("example.org/a b", r"write https://example\.org/a%20b$"),
        ("ftp://example.org/", r"'ftp://example\.org/' is not an http or https URL: write it as"),
        ("/etc/passwd", r"is not an http or https URL: write it as"),
        ("http://", r"is not an http or https URL"),
        ("http://a b/", r"is not an http or https URL"),
        ("http://ex!ample.org/", r"names no possible host"),
        ("http://example.org/" + "a" * 3000, r"…' is 3,019 bytes long, more than 2,048: leave it out"),
        ("mailto:me@example.org", r"is not an http or https URL"),
        ("", r"is not an http or https URL"),
    ],
)
def test_a_bad_url_gets_one_line_with_the_fix(text: str, complaint: str) -> None:
    """Every refusal quotes the URL and says how to mend it, on one line of bounded length."""
    with pytest.raises(UsageError, match=complaint) as caught:
        check_url(Entry(text, ""), 2048)
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


def test_one_line_tells_of_many_bad_urls() -> None:
    """The first bad URL is named with its line, the others are counted."""
    entries = [Entry("http://a.example/", "l:1"), Entry("b", "l:2"), Entry("c", "l:3"), Entry("d", "l:4")]
    with pytest.raises(UsageError, match=r"^l:2: 'b' is not .* \(2 more of the URLs are bad\)$"):
        check_entries(entries, 2048)


def test_seeds_are_canonical_and_each_once() -> None:
    """Fragments and userinfo are dropped, not refused; duplicates collapse; order is kept."""
    texts = ["http://u:p@A.example:80/x#y", "http://b.example", "http://a.example/x"]
    seeds = check_entries([Entry(text, "") for text in texts], 2048)
    assert [seed.url for seed in seeds] == ["http://a.example/x", "http://b.example/"]
    assert [seed.parts.host for seed in seeds] == ["a.example", "b.example"]
