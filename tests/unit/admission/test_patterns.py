"""--include and --exclude: what they match, what they cost, what is refused."""

import re
import time

import pytest

from limpet.admission.patterns import PATTERN_BYTES_MAX, PATTERNS_MAX, Patterns
from limpet.model.errors import UsageError

URL = "http://h.test/docs/a.html?b=c"


def test_a_pattern_is_searched_for_anywhere_in_the_url() -> None:
    """Host, path and query alike; anchors bind; case counts unless the pattern says otherwise."""
    for pattern in (r"h\.test", "/docs/", r"\?b=", r"^http:", r"c$", "(?i)/DOCS/"):
        assert Patterns(exclude=(pattern,)).excludes(URL)
        assert Patterns(include=(pattern,)).includes(URL)
    for pattern in ("^/docs", "/DOCS/", r"a\.html$"):
        assert not Patterns(exclude=(pattern,)).excludes(URL)
        assert not Patterns(include=(pattern,)).includes(URL)


def test_of_several_patterns_one_is_enough() -> None:
    """Joined or not: a flag or a name of a group stays with its own pattern."""
    for pair in (("/docs/", "/x/"), ("(?i)/DOCS/", "/X/"), ("(?P<a>/docs/)", "(?P<a>/x/)"), (r"\Q/docs/", r"/x/\Q\E")):
        patterns = Patterns(pair, pair)
        for url, expected in (("http://h/docs/", True), ("http://h/y/", False), ("http://h/", False)):
            assert (patterns.includes(url), patterns.excludes(url)) == (expected, expected), pair
    assert Patterns(exclude=("(?i)/A/", "/B/")).excludes("http://h/a/")
    assert not Patterns(exclude=("(?i)/A/", "/B/")).excludes("http://h/b/")


def test_without_patterns_everything_goes() -> None:
    """No include means no narrowing."""
    assert not Patterns()
    assert Patterns().includes(URL)
    assert not Patterns().excludes(URL)
    assert Patterns(exclude=("x",))


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ("(", "missing )"),
        ("(?<=a)b", "look-around"),
        (r"(a)\1", "invalid escape sequence"),
        ("x{1001}", "invalid repetition size"),
        (r"\pL{900}" * 20, "too large"),
        ("x" * (PATTERN_BYTES_MAX + 1), "too long"),
        ("\udcff", "not text"),
        ("", "matches every URL"),
    ],
)
def test_what_is_no_pattern_is_named(pattern: str, fault: str) -> None:
    """The flag, the pattern and what is wrong with it, in one line."""
    for include, exclude, flag in (((pattern,), (), "--include"), (("a",), ("b", pattern), "--exclude")):
        with pytest.raises(UsageError, match=re.escape(fault)) as caught:
            Patterns(include, exclude)
        assert flag in str(caught.value)
        assert "\n" not in str(caught.value)


def test_the_number_of_patterns_is_bounded() -> None:
    """What needs more has a better form."""
    with pytest.raises(UsageError, match="join some"):
        Patterns(exclude=("a",) * (PATTERNS_MAX + 1))
    assert Patterns(exclude=tuple(f"/{number}/" for number in range(PATTERNS_MAX))).excludes("http://h/99/")


def test_time_is_linear_where_backtracking_doubles_with_every_letter() -> None:
    """The reason for the engine: Python's own takes tens of times as long for eight letters more."""
    evil = re.compile(r"(a+)+b")
    times = []
    for length in (12, 20):
        begun = time.process_time()
        assert evil.search("a" * length) is None
        times.append(time.process_time() - begun)
    assert times[1] > 20 * times[0]
    begun = time.process_time()
    assert not Patterns(exclude=(r"(a+)+b",)).excludes("http://h/" + "a" * 4_000)
    assert time.process_time() - begun < 0.1
