"""What a resume remembers, and what a configuration file changes of it: the table of docs/configuration.md."""

from pathlib import Path

import msgspec
import pytest

from limpet.cli.remembered import FLAG_KEYS, check_withdrawn, remembered
from limpet.config import Settings
from limpet.config.settings import named_keys
from limpet.model.errors import UsageError

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"
FIRST = """
owned = ["127.0.0.0/8"]
accept_invalid_cert = ["a.example"]
proxy = "http://proxy.example:3128"
proxy_credentials_file = "/etc/secret"
min_free_bytes = 5
[politeness]
delay_seconds = 7
budget_per_day = 1000
floor_seconds = 4
[rules]
host_urls_max = 50
depth_trap = 9
[fetching]
body_bytes_max = 1000
[politeness.shared_ranges.cdn]
networks = ["192.0.2.0/24"]
"""
SECOND = """
owned = ["b.example"]
accept_invalid_cert = []
proxy = ""
proxy_credentials_file = ""
[politeness]
delay_seconds = 0
budget_per_day = 0
[rules]
host_urls_max = 60
[fetching]
body_bytes_max = 2000
"""


def file(path: Path, text: str) -> Path:
    """A configuration file."""
    path.write_text(text)
    return path


def values(settings: Settings) -> dict[str, object]:
    """Every key as tables name it."""
    found: dict[str, object] = {}
    for name in settings.__struct_fields__:
        value = getattr(settings, name)
        if isinstance(value, msgspec.Struct):
            found |= {f"{name}.{key}": getattr(value, key) for key in value.__struct_fields__}
        else:
            found[name] = value
    return found


def test_without_a_file_everything_stays(tmp_path: Path) -> None:
    """What the last run left is what the next begins with; a new crawl begins with its file or the defaults."""
    first = remembered(None, file(tmp_path / "first", FIRST))
    assert remembered(first, None) == first
    assert remembered(None, None) == Settings()


def test_a_file_that_speaks_of_something_else_takes_nothing_back(tmp_path: Path) -> None:
    """Keys with a flag stay; every other key is the file's, or the default."""
    first = remembered(None, file(tmp_path / "first", FIRST))
    now = values(remembered(first, file(tmp_path / "second", "[rules]\nsegment_repeats_max = 5\n")))
    was, defaults = values(first), values(Settings())
    assert {key: now[key] for key in FLAG_KEYS} == {key: was[key] for key in FLAG_KEYS}
    rest = now.keys() - FLAG_KEYS.keys()
    expected = {**defaults, "rules.segment_repeats_max": 5}
    assert {key: now[key] for key in rest} == {key: expected[key] for key in rest}
    assert all(was[key] != defaults[key] for key in FLAG_KEYS), "each of them was told apart from its default"


def test_a_file_that_names_a_key_has_its_way(tmp_path: Path) -> None:
    """An empty list, no proxy and no budget are values too."""
    first = remembered(None, file(tmp_path / "first", FIRST))
    second = file(tmp_path / "second", SECOND)
    assert named_keys(second) >= FLAG_KEYS.keys()
    assert remembered(first, second) == remembered(None, second)


def test_file_and_memory_together_must_make_sense(tmp_path: Path) -> None:
    """A spool that cannot hold the remembered greatest body is refused, naming the file and both keys."""
    first = remembered(None, file(tmp_path / "first", "[fetching]\nbody_bytes_max = 3_000_000_000\n"))
    second = file(tmp_path / "second", "[fetching]\nspool_bytes_max = 2_000_000_000\n")
    with pytest.raises(UsageError, match=r"second, with what this crawl remembers: fetching.spool_bytes_max"):
        remembered(first, second)


@pytest.mark.parametrize(
    ("owned", "host", "refused"),
    [
        ((), "127.0.0.1", True),
        (("10.0.0.0/8",), "127.0.0.1", True),
        (("127.0.0.0/16",), "127.0.0.1", False),
        ((), "10.1.1.1", False),  # was not covered either: nothing is taken back
        ((), "app.localhost", True),
        ((), "203.0.113.7", True),  # documentation addresses are refused as private ones are
        ((), "8.8.8.8", False),  # a public address stays reachable, at a stranger's pace
        ((), "a.example", False),
    ],
)
def test_owned_is_not_taken_from_hosts_with_waiting_urls(owned: tuple[str, ...], host: str, *, refused: bool) -> None:
    """Where the gate would refuse them: they would all fail. Other hosts only lose what `owned` lifted."""
    before = Settings(owned=("127.0.0.0/8", "app.localhost", "203.0.113.0/24", "8.8.8.8", "a.example"))
    if refused:
        with pytest.raises(UsageError, match=f"{host} has URLs that wait, and owned does not cover it any more"):
            check_withdrawn(before, Settings(owned=owned), lambda: [host])
    else:
        check_withdrawn(before, Settings(owned=owned), lambda: [host])
    check_withdrawn(before, Settings(owned=owned), list)
    check_withdrawn(None, Settings(owned=owned), lambda: [host])


def test_the_page_has_a_line_for_each_key_with_a_flag() -> None:
    """The table in the documentation is the one in the program."""
    lines = [line for line in PAGE.read_text().splitlines() if "stays unless F names it" in line]
    assert [line.split("|")[1].strip(" `") for line in lines] == list(FLAG_KEYS)
    for line, flag in zip(lines, FLAG_KEYS.values(), strict=True):
        assert f"`{flag}` " in line.split("|")[4]
