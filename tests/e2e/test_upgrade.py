"""Folders that an earlier Limpet left: opened, resumed, verified; those of a later one are refused."""

import json
import os
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from e2e.command import limpet
from e2e.raw_site import RawSites, Site, answer, moved, ok
from limpet.clock import SystemClock
from limpet.embedded.folder import Folder
from limpet.model.identity import suffix_list_digest
from limpet.runtime import InlineRunner
from limpet.runtime.sqlitefile import SqliteFile
from limpet.schemas.sqlite import SHARD_VERSION, shard_schema

FROZEN = Path(__file__).parent / "frozen" / "schema2.tar.xz"
URL = "http://127.18.2.1:18218/"
OLD_SHARD = 6
"""The shard of the only host."""


NEWER = FROZEN.with_name("schema3.tar.xz")


def page(title: str, *targets: str) -> bytes:
    """A page with links."""
    return ok(f"<title>{title}</title>{''.join(f'<a href={target}>x</a>' for target in targets)}".encode())


SITE = Site(
    answers={
        "/robots.txt": answer(b"200 OK", b"User-agent: *\nDisallow: /denied\n", b"Content-Type: text/plain"),
        "/": page("0", "/gone", "/cut", "/moved", "/denied", "/blocked", "/a", "/b", "/c", "/d"),
        "/cut": page("now it is whole"),
        "/moved": moved(b"/target"),
        **{f"/{name}": page(name) for name in ("a", "b", "c", "d", "e", "f", "target")},
    },
    host="127.18.2.1",
    port=18218,
)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The frozen folder of schema 2."""
    return thawed(FROZEN, tmp_path)


def thawed(archive: Path, into: Path) -> Path:
    """A frozen folder. The public suffix list of its facts is this machine's: an address has no suffix to move by."""
    with tarfile.open(archive) as file:
        file.extractall(into, filter="data")
    folder = into / archive.name.partition(".")[0]
    facts = folder / "facts.json"
    kept = json.loads(facts.read_text()) | {"suffix_list_digest": suffix_list_digest()}
    facts.write_text(json.dumps(kept))
    return folder


def shape(path: Path) -> dict[str, str]:
    """Tables, indexes and views with the statements that made them."""
    with closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"))


def version(path: Path) -> int:
    """The schema version."""
    with closing(sqlite3.connect(path)) as connection:
        found: int = connection.execute("PRAGMA user_version").fetchone()[0]
        return found


def test_an_old_crawl_is_opened_resumed_and_verified(old: Path) -> None:
    """Every verb knows it at once; what waited is fetched, nothing is fetched again, the archive stands the tests."""
    status = limpet("status", old, "--json")
    assert (status.code, status.json["urls"]["due"], status.json["urls"]["fetched"]) == (0, 5, 5), status
    assert "was made by an earlier Limpet: 32 shards are of this one's schema now" in status.stderr
    answers = limpet("report", old, "--by", "status", "--json")
    assert (answers.code, answers.stderr) == (0, "")
    fetches = {line["status"]: line["fetches"] for line in answers.json}
    assert fetches == {"200": 4, "302": 1, "404": 2, "reset": 1}
    with RawSites({"site": SITE}) as sites:
        result = limpet("crawl", "--into", old, "--json")
        asked = sites.asked("site")
    assert result.code == 0, result
    assert sorted(asked) == ["/cut", "/d", "/e", "/f", "/target"]
    assert limpet("urls", old, "--state", "fetched").stdout.count("\n") == 10
    assert limpet("verify", old, "--links").code == 0
    assert limpet("audit", old).code == 0


def test_the_steps_lead_to_the_very_schema_of_a_new_file(old: Path, tmp_path: Path) -> None:
    """Statement by statement; each step is on record, and a file that is up to date stays as it is."""
    assert version(old / "shards" / f"{OLD_SHARD:02d}.sqlite") == 2
    assert limpet("status", old).code == 0
    SqliteFile(tmp_path / "new", schema=shard_schema(), runner=InlineRunner(), clock=SystemClock())
    for shard in (0, OLD_SHARD):
        file = old / "shards" / f"{shard:02d}.sqlite"
        assert shape(file) == shape(tmp_path / "new")
        assert version(file) == SHARD_VERSION
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            steps = connection.execute("SELECT name, value FROM meta WHERE name LIKE 'step%' ORDER BY name").fetchall()
        assert steps == [(f"step_{step.to}", step.name) for step in shard_schema().steps]
    before = file.read_bytes()
    assert limpet("status", old).stderr == ""
    assert file.read_bytes() == before


def test_a_crawl_of_schema_3_goes_on(tmp_path: Path) -> None:
    """Its orders hold, what waited is fetched, and from now on requests for robots.txt are in the log."""
    old = thawed(NEWER, tmp_path)
    before = limpet("log", old)
    assert (before.code, before.stdout.count("\n"), "/robots.txt" in before.stdout) == (0, 8, False), before
    assert "32 shards are of this one's schema now" in before.stderr
    assert "127.18.2.9: operator_block" in limpet("status", old).stdout
    with RawSites({"site": SITE}) as sites:
        result = limpet("crawl", "--into", old, "--json")
        asked = sites.asked("site")
    assert result.code == 0, result
    assert sorted(asked) == ["/c", "/d", "/target"]
    after = limpet("log", old).stdout.splitlines()
    assert len([line for line in after if "/robots.txt" in line]) == len(after) - 8 - 3
    assert limpet("verify", old, "--links").code == 0
    assert limpet("audit", old).code == 0


def test_a_step_that_dies_leaves_the_old_file(old: Path) -> None:
    """All steps of a shard are one transaction: an outcome that cannot be read stops them, and nothing has changed."""
    file = old / "shards" / f"{OLD_SHARD:02d}.sqlite"
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        kept = connection.execute("SELECT seq, data FROM outcome ORDER BY seq DESC LIMIT 1").fetchone()
        connection.execute("UPDATE outcome SET data = x'ff' WHERE seq = ?", kept[:1])
    before = shape(file)
    result = limpet("status", old)
    assert result.code == 4, result
    assert (shape(file), version(file)) == (before, 2)
    assert version(old / "shards" / "00.sqlite") == SHARD_VERSION
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("UPDATE outcome SET data = ? WHERE seq = ?", (kept[1], kept[0]))
    result = limpet("status", old, "--json")
    assert (result.code, result.json["urls"]["fetched"]) == (0, 5), result
    assert "26 shards" in result.stderr


def test_an_old_folder_at_work_is_left_alone(old: Path) -> None:
    """An earlier Limpet owns its shards: one line says so, with the exit code of a refusal."""
    file = SqliteFile(
        Folder.open(old).shard_file(OLD_SHARD),
        schema=shard_schema()._replace(version=2, steps=()),
        runner=InlineRunner(),
        clock=SystemClock(),
    )
    result = limpet("status", old)
    assert result.code == 2, result
    assert "is in use by another process: a crawl by an earlier Limpet" in result.complaint
    file.abandon()


def test_an_old_folder_that_cannot_be_written_says_so(old: Path) -> None:
    """Looking on must not need a right that is missing without a word."""
    if os.geteuid() == 0:
        pytest.skip("root writes everywhere")
    (old / "shards").chmod(0o500)
    try:
        result = limpet("status", old)
    finally:
        (old / "shards").chmod(0o700)
    assert result.code == 2, result
    assert "read-only" in result.complaint


@pytest.mark.parametrize("number", [1, SHARD_VERSION + 1, 99])
def test_other_versions_are_refused(old: Path, number: int) -> None:
    """Newer than known, or older than any step: both versions are named and nothing is touched."""
    assert limpet("status", old).code == 0
    file = old / "shards" / f"{OLD_SHARD:02d}.sqlite"
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version = {number}")
    verbs: list[list[str | Path]] = [["status", old], ["verify", old], ["crawl", "--into", old], ["add", old, URL]]
    for words in verbs:
        result = limpet(*words)
        assert result.code == 2, result
        assert f"has schema version {number}, not {SHARD_VERSION}: use the Limpet that made it" in result.complaint
    assert version(file) == number
