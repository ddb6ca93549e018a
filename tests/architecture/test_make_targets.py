"""What `make` would do, without doing it."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ((), "-m scenarios.demo --into crawl"),
        (("SEED=https://example.org/",), "crawl 'https://example.org/' --into 'crawls/example.org'"),
        (("SEED=http://me:pw@a.example:8080/x?b=1&c",), "--into 'crawls/a.example-8080'"),
        (("SEED=https://example.org/", "INTO=mine"), "--into 'mine'"),
        (("SEED=https://example.org/", "CONTACT=me@example.org"), "--contact 'me@example.org'"),
    ],
)
def test_each_site_has_a_folder_of_its_own(words: tuple[str, ...], command: str) -> None:
    """`make crawl` and then `make crawl SEED=…` never meet in one folder."""
    done = subprocess.run(["make", "-n", "crawl", *words], cwd=ROOT, capture_output=True, check=True, text=True)
    assert command in done.stdout
