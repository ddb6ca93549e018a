import pytest

from limpet.cli.units import parse_count, parse_duration, parse_size, show_bytes, show_count, show_duration
from limpet.model.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("10m", 600),
        ("2h", 7200),
        ("1d", 86_400),
        ("1h30m", 5400),
        ("0.5", 0.5),
        (" 2 H ", 7200),
    ],
)
def test_a_duration_is_read_in_every_documented_form(text: str, seconds: float) -> None:
    """A bare number counts seconds; units may be combined."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "x", "10q", "-5", "1h 5", "nan", "inf", "1e3", "٣s", "10m!"])
def test_what_is_no_duration_is_refused_with_the_forms(text: str) -> None:
    """The refusal shows how to write one."""
    with pytest.raises(UsageError, match=r"write 90, 90s, 10m, 2h or 1d"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("500", 500), ("10k", 10_000), ("200M", 200_000_000), ("1.5GB", 1_500_000_000), ("7 b", 7), ("2TB", 2 * 10**12)],
)
def test_a_size_is_read_in_powers_of_1000(text: str, size: int) -> None:
    """Sizes are decimal, as on the label of a disk."""
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "ten", "10x", "-1", "1,5M", "bb"])
def test_what_is_no_size_is_refused(text: str) -> None:
    """The refusal shows how to write one."""
    with pytest.raises(UsageError, match="write 500, 10k, 200M or 1G"):
        parse_size(text)


def test_a_count_may_be_grouped() -> None:
    """Digits may be grouped; signs, fractions and words are no counts."""
    assert parse_count("1,000") == parse_count("1_000") == 1000
    with pytest.raises(UsageError, match="-1 is too small: at least 0"):
        parse_count("-1")
    for text in ("1.5", "many", "", "--1"):
        with pytest.raises(UsageError, match="whole number"):
            parse_count(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.2, "1 s"),
        (59, "59 s"),
        (60, "1 min"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_durations_are_shown_in_two_units_at_most(seconds: float, text: str) -> None:
    """A reader needs a size, not a stop watch."""
    assert show_duration(seconds) == text


def test_sizes_and_counts_are_shown_short() -> None:
    """Bytes in powers of 1000, counts grouped, nouns in their number."""
    assert [show_bytes(n) for n in (0, 999, 3_400_000, 5 * 10**12)] == ["0 B", "999 B", "3.4 MB", "5.0 TB"]
    assert [show_count(1, "page"), show_count(1204, "page"), show_count(2, "entry")] == [
        "1 page",
        "1,204 pages",
        "2 entries",
    ]
