"""The disk is full, or read-only, in the middle of a crawl."""

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from e2e.command import Result, limpet
from e2e.killreport import crawl_arguments, deserved_states, states_of
from limpet.config import Facts, Settings
from limpet.embedded.folder import Folder
from limpet.model.identity import suffix_list_digest
from origin import OriginProcess, Policy, examine

DISK_BYTES = 48 << 20
ROOM_BYTES = 1 << 20
PAGES = 40
PAGE_BYTES = 120_000


def mount(*words: str | Path) -> bool:
    """Whether `mount` did it."""
    return subprocess.run(["mount", *map(str, words)], capture_output=True, check=False).returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    if not mount("-t", "tmpfs", "-o", f"size={DISK_BYTES}", "limpet-test", place):
        pytest.skip("mounting a small file system takes the rights of the superuser")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def fill(disk: Path) -> Path:
    """A file that leaves `ROOM_BYTES`."""
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(disk).free - ROOM_BYTES)
    return ballast


def responses(folder: Path) -> Counter[str]:
    """URL -> its response records with status 200, as warcio reads them."""
    found: Counter[str] = Counter()
    for segment in (folder / "segments").glob("*.warc.gz"):
        with segment.open("rb") as stream:
            for record in ArchiveIterator(stream):
                if record.rec_type == "response" and record.http_headers.get_statuscode() == "200":
                    found[record.rec_headers.get_header("WARC-Target-URI")] += 1
    return found


def test_a_full_disk_stops_the_crawl_and_loses_nothing(small_disk: Path, tmp_path: Path) -> None:
    """G22: exit code 4 and a line that says what to do; what is there stays readable and whole; with space freed the
    same command goes on and ends with every page stored once. A read-only disk is told too.
    """
    folder = small_disk / "crawl"
    web = OriginProcess("kill", log_path=tmp_path / "origin.log", pages=PAGES, hosts=3, page_bytes=PAGE_BYTES)
    with web as origin:
        config = tmp_path / "config.toml"
        config.write_text("min_free_bytes = 0\n")  # so that the disk really gets full
        words = ["crawl", *crawl_arguments(origin, folder, workers=2), "--config", config]
        assert limpet(*words, "--limit", "5").code == 0
        ballast = fill(small_disk)
        result = limpet(*words)
        assert result.code == 4, result
        assert_told(result, folder, "full", "free some space")
        assert limpet("status", folder, "--json").json["urls"]["fetched"] >= 5
        assert mount("-o", "remount,ro", small_disk)
        result = limpet(*words)
        assert result.code in {2, 4}, result
        assert_told(result, folder, "read-only", "make it writable")
        assert mount("-o", "remount,rw", small_disk)
        ballast.unlink()
        result = limpet(*words)
        assert result.code == 0, result
    assert states_of(folder) == deserved_states(origin)
    assert examine(origin.events(), Policy(owned=True)).violations == []
    pages = {url for url, kind in origin.web.expected().items() if kind == "page"}
    stored = responses(folder)
    assert {url: stored[url] for url in pages} == dict.fromkeys(pages, 1)
    assert limpet("verify", folder, "--json").json["findings"] == []


def assert_told(result: Result, folder: Path, *words: str) -> None:
    """The last line names the folder, what is wrong and the fix."""
    line = result.stderr.splitlines()[-1]
    assert line.startswith("limpet: "), result
    assert str(folder) in line, result
    for word in words:
        assert word in line, result


def test_verbs_on_a_full_disk_say_how_far_they_came(small_disk: Path) -> None:
    """Exit code 4, what became of the URL, and the fix; with space freed the same command does it."""
    facts = Facts(crawl="0123456789abcdef", hash_seed=b"s" * 16, suffix_list_digest=suffix_list_digest())
    folder = Folder.create(small_disk / "crawl", facts)
    folder.store_settings(Settings(owned=("127.0.0.0/8",)))
    ballast = small_disk / "ballast"
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(small_disk).free)
    added = limpet("add", folder.path, "http://127.0.0.1:9/")
    assert added.code == 4, added
    told = f"the disk below {folder.path} is full; free some space, then run the same command again"
    assert added.complaint == f"nothing was added: {told}"
    retried = limpet("failures", folder.path, "--retry")
    assert (retried.code, retried.complaint) == (4, f"not all of it is due again: {told}")
    ballast.unlink()
    assert limpet("add", folder.path, "http://127.0.0.1:9/").stdout == "1 URL added, 0 known already\n"
    assert limpet("failures", folder.path, "--retry").code == 0
