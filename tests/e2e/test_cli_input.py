"""Bad input through the real command: one clear line, the right exit code, and nothing written."""

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.command import OWNED, limpet
from limpet.cli.arguments import VERBS
from limpet.cli.main import main
from limpet.clock import SystemClock
from limpet.config import Facts
from limpet.embedded.folder import Folder
from limpet.model.identity import suffix_list_digest
from limpet.runtime import InlineRunner, SystemRandom
from limpet.runtime.sqlitefile import SqliteFile
from limpet.schemas.sqlite import shard_schema
from limpet.urlstore import DAMAGED_SEGMENT
from limpet.urlstore.sqlite import SqliteUrlStore


def stored(path: Path) -> Path:
    """A crawl folder without any URL."""
    facts = Facts(crawl="0123456789abcdef", hash_seed=b"s" * 16, suffix_list_digest=suffix_list_digest())
    return Folder.create(path / "crawl", facts).path


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["example.org"], "'example.org' is not an http or https URL: write https://example.org/"),
        (["ftp://example.org/"], "'ftp://example.org/' is not an http or https URL"),
        (["http://exa mple/"], "its host 'exa mple' holds a space"),
        (["http://a%zz/"], "its host 'a%zz' holds '%'"),
        (["http://a.example:99999/"], "its port '99999' is no number up to 65,535"),
        (["http://a.example/", "--depth", "-1"], "argument --depth: -1 is too small: at least 0 is needed"),
        ([], "no URL to begin with: give at least one, or -i FILE"),
        (["http://127.0.0.1:8000/"], "crawl it with --owned 127.0.0.1"),
        (["http://a.example/", "http://b.example/"], "one seed host, not 2"),
        (["http://a.example/", "--scope", "any"], "--scope any leads to hosts of others"),
        (["http://127.0.0.1/", *OWNED, "--scope", "any"], "add --limit N or --depth N"),
        (["-i", "no-such-list"], "cannot read no-such-list: No such file or directory"),
        (["-i", "list.txt"], "list.txt:2: 'nonsense' is not an http or https URL"),
        (["-i", "binary"], "binary:1: not text (a zero byte)"),
        (["--config", "bad.toml", "http://a.example/"], "configuration bad.toml: "),
        (["http://a.example/", "--patience", "long"], "argument --patience: 'long' is not a duration"),
        (["http://a.example/", "--delay", "366d"], "--delay: expected `float` <= 31536000.0"),
        (["http://a.example/", "--budget", "9_999_999_999_999"], "--budget: expected `int` <= 1000000000000"),
        (["http://a.example/", "--host-limit", "9_999_999_999_999"], "--host-limit: expected `int` <= 1000000000000"),
        (["--config", "hosts.toml", "http://a.example/"], "--accept-invalid-cert 'a/b' is no host"),
    ],
)
def test_a_bad_crawl_leaves_no_folder(tmp_path: Path, words: list[str], complaint: str) -> None:
    """Exit code 2, one line, and no crawl folder."""
    (tmp_path / "list.txt").write_text("http://a.example/\nnonsense\n")
    (tmp_path / "binary").write_bytes(b"\x7fELF\x00\x01")
    (tmp_path / "bad.toml").write_text("[fetching]\nspeed = 'high'\n")
    (tmp_path / "hosts.toml").write_text("accept_invalid_cert = ['a/b']\n")
    result = limpet("crawl", *words, "--into", "crawl", cwd=tmp_path)
    assert result.code == 2, result
    assert complaint in result.complaint
    assert result.stdout == ""
    assert not (tmp_path / "crawl").exists()


@pytest.mark.parametrize("verb", ["status", "urls", "show", "failures", "add", "verify", "audit"])
def test_every_verb_tells_what_is_no_crawl(tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    """A missing folder and a folder of something else, with exit code 2."""
    rest = ["http://a.example/"] if verb in {"show", "add"} else []
    (tmp_path / "other").mkdir()
    for name, complaint in (("none", "none does not exist"), ("other", "other is not a crawl folder")):
        assert main([verb, str(tmp_path / name), *rest]) == 2
        printed = capsys.readouterr()
        assert complaint in printed.err
        assert (printed.out, printed.err.count("\n")) == ("", 1)


def test_a_folder_of_another_version_is_refused_everywhere(tmp_path: Path) -> None:
    """The stored version and ours are named; nothing is touched."""
    folder = stored(tmp_path)
    facts = folder / "facts.json"
    facts.write_text(facts.read_text().replace('"layout_version": 1', '"layout_version": 7'))
    before = facts.read_bytes()
    for words in (["status", str(folder)], ["crawl", "--into", str(folder), "http://a.example/"]):
        result = limpet(*words)
        assert result.code == 2, result
        assert "has layout version 7; this Limpet reads version 1" in result.complaint
    assert facts.read_bytes() == before


@pytest.mark.parametrize("verb", ["status", "urls", "show", "failures", "hosts", "verify", "audit", "add", "log"])
def test_rules_of_another_identity_are_refused_by_every_verb(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    """Under other rules URLs have other fingerprints: every answer would be wrong."""
    folder = stored(tmp_path)
    facts = folder / "facts.json"
    facts.write_text(facts.read_text().replace('"identity_version": 1', '"identity_version": 99'))
    assert main([verb, str(folder), *(["http://a.example/"] if verb in {"show", "add"} else [])]) == 2
    assert "identity rules version 99, and this Limpet has 1" in capsys.readouterr().err


def test_a_damaged_facts_file_is_named(tmp_path: Path) -> None:
    """A torn facts file is never replaced by a fresh one."""
    folder = stored(tmp_path)
    (folder / "facts.json").write_bytes(b'{"layout_version": 1, "cra')
    result = limpet("crawl", "--into", folder, "http://a.example/")
    assert result.code == 2, result
    assert "facts.json is not a crawl folder of this version" in result.complaint


def test_a_disk_without_room_is_refused_at_the_start(tmp_path: Path) -> None:
    """Exit code 4: what is there is kept, and the same command goes on later."""
    words = ["http://127.0.0.1:9/", *OWNED, "--into", "crawl", "--min-free", "9000T"]
    result = limpet("crawl", *words, cwd=tmp_path)
    assert result.code == 4, result
    assert "less than 9000000000 MB free at crawl" in result.complaint
    assert "--min-free" in result.complaint
    assert not (tmp_path / "crawl" / "settings.json").exists(), "a refused run leaves no settings to later ones"


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_read_only_folder_is_refused(tmp_path: Path) -> None:
    """Exit code 2, with the fix; reading it still works."""
    folder = stored(tmp_path)
    (folder / "run").chmod(0o500)
    result = limpet("crawl", "--into", folder, "http://127.0.0.1:9/", *OWNED)
    assert result.code == 2, result
    assert "is read-only" in result.complaint
    assert limpet("status", folder).code == 0


def test_a_place_that_takes_no_folder_is_refused() -> None:
    """Also for the superuser: the kernel's own file systems take no directories."""
    result = limpet("crawl", "http://127.0.0.1:9/", *OWNED, "--into", "/proc/limpet")
    assert result.code == 2, result
    assert "/proc/limpet" in result.complaint


def test_a_missing_shard_stops_everything(tmp_path: Path) -> None:
    """Exit code 4: going on would lose its URLs."""
    folder = stored(tmp_path)
    (folder / "shards" / "11.sqlite").unlink()
    for words in (["status", str(folder)], ["crawl", "--into", str(folder), "http://127.0.0.1:9/", *OWNED]):
        result = limpet(*words)
        assert result.code == 4, result
        assert "11.sqlite is missing: restore it from a copy" in result.complaint


def test_an_unknown_url_is_told(tmp_path: Path) -> None:
    """`show` of a URL without a row says where it may have gone."""
    result = limpet("show", stored(tmp_path), "http://a.example/")
    assert result.code == 2
    assert "http://a.example/ is not in" in result.complaint


def test_an_empty_crawl_has_an_empty_status(tmp_path: Path) -> None:
    """The documented keys are there from the first moment."""
    result = limpet("status", stored(tmp_path), "--json")
    assert result.code == 0
    found = result.json
    assert found["urls"] == {}
    assert (found["records"], found["bytes"]) == (0, 0)
    assert found["today"] == {"fetches": 0, "budget": None}


def test_help_names_every_verb_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` is enough to begin; every verb has its own."""
    overview = limpet("--help")
    assert overview.code == 0
    for word in (*VERBS, "130 interrupted"):
        assert word in overview.stdout
    for words in (*([verb, "--help"] for verb in VERBS), ["--version"]):
        with pytest.raises(SystemExit) as left:
            main(words)
        assert left.value.code == 0
        assert capsys.readouterr().out.startswith(("usage: limpet ", "limpet "))


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    """`limpet urls DIR | head` ends without a traceback."""
    code = f"{sys.executable} -m limpet.cli.entry urls {stored(tmp_path)} | true"
    result = subprocess.run(["sh", "-c", code], capture_output=True, check=False)
    assert result.stderr == b""


@pytest.mark.parametrize("verb", ["--help", "status"])
@pytest.mark.parametrize(
    ("how", "code", "stderr"),
    [
        (">&-", 0, ""),
        ("<&- >&- 2>&-", 0, ""),
        (">/dev/full", 4, "limpet: cannot write to stdout: No space left on device\n"),
        (">/dev/full 2>/dev/full", 4, ""),
        (">/dev/null 2>/dev/full", 0, ""),
    ],
)
def test_a_stdout_that_takes_nothing_costs_one_line(
    tmp_path: Path, verb: str, how: str, code: int, stderr: str
) -> None:
    """A full or closed stream ends in a sensible exit code and never in a traceback."""
    words = verb if verb.startswith("-") else f"{verb} {stored(tmp_path)}"
    command = f"unset PYTHONUNBUFFERED; {sys.executable} -m limpet.cli.entry {words} {how}"
    result = subprocess.run(["sh", "-c", command], capture_output=True, check=False, text=True)
    assert (result.returncode, result.stderr) == (code, stderr)


def test_a_display_that_nobody_sees_ends_no_run(tmp_path: Path) -> None:
    """A full stderr costs the display, not the crawl."""
    words = f"crawl http://127.0.0.1:9/ --owned 127.0.0.1 --patience 0 --into {tmp_path}/crawl"
    command = f"unset PYTHONUNBUFFERED; {sys.executable} -m limpet.cli.entry {words} 2>/dev/full"
    result = subprocess.run(["sh", "-c", command], capture_output=True, check=False, text=True)
    assert result.returncode == 3
    assert "Nothing can be fetched within patience" in result.stdout


def test_an_error_that_nobody_hears_has_its_exit_code(tmp_path: Path) -> None:
    """A complaint that cannot be printed changes nothing."""
    command = f"{sys.executable} -m limpet.cli.entry status {tmp_path}/none 2>/dev/full"
    assert subprocess.run(["sh", "-c", command], check=False).returncode == 2


@pytest.mark.parametrize("moment", ["argparse", "limpet.cli.arguments", "msgspec", "asyncio", "limpet.cli.listing"])
def test_an_early_interrupt_is_no_fault(tmp_path: Path, moment: str) -> None:
    """Ctrl-C while modules are still loaded: no traceback, exit code 130."""
    code = f"""
import os, signal, sys
class Interrupt:
    def find_spec(self, name, *_):
        if name == {moment!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
from limpet.cli.entry import main
sys.argv = ["limpet", "status", {str(tmp_path)!r}]
sys.exit(main())
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")


def test_a_limit_of_open_files_is_named(tmp_path: Path) -> None:
    """No healthy file is called damaged because too many are open."""
    for limit in (16, 40, 60):
        command = f"ulimit -n {limit}; {sys.executable} -m limpet.cli.entry status {stored(tmp_path / str(limit))}"
        result = subprocess.run(["sh", "-c", command], capture_output=True, check=False, text=True)
        told = f"limpet: too many open files (the limit is {limit}): raise it with `ulimit -n 1024`, then run again\n"
        assert (result.returncode, result.stderr) == (4, told)


@pytest.mark.parametrize("verb", ["status", "urls", "failures", "crawl", "add"])
def test_an_empty_shard_is_damage_not_another_version(tmp_path: Path, verb: str) -> None:
    """A file that lost its content names the way out: a copy."""
    folder = stored(tmp_path)
    shard = folder / "shards" / "05.sqlite"
    shard.write_bytes(b"")
    words: list[str | Path] = ["crawl", "--into", folder, *OWNED] if verb == "crawl" else [verb, folder]
    result = limpet(*words, *(["http://127.0.0.1:9/"] if verb in {"crawl", "add"} else []))
    assert result.code == 4, result
    assert "05.sqlite is damaged or empty" in result.complaint
    assert "restore it from a copy" in result.complaint
    assert shard.read_bytes() == b""


def test_damage_in_the_midst_of_a_shard_is_named_by_a_sum(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file opens well; the first page that a sum needs is no page."""
    folder = stored(tmp_path)
    shard = folder / "shards" / "07.sqlite"
    with contextlib.closing(sqlite3.connect(shard)) as file:
        (page,) = file.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'authority'").fetchone()
        (page_bytes,) = file.execute("PRAGMA page_size").fetchone()
    with shard.open("r+b") as stream:
        stream.seek((page - 1) * page_bytes)
        stream.write(b"\xff" * page_bytes)
    assert main(["report", str(folder), "--by", "host"]) == 4
    assert str(shard) in capsys.readouterr().err


def test_damage_that_was_told_once_is_shown_for_good(tmp_path: Path) -> None:
    """The notice is delivered to a log that few read; `status` and `failures` go on naming the segment."""
    folder = Folder.open(stored(tmp_path))

    async def tell() -> None:
        runner, clock = InlineRunner(), SystemClock()
        file = SqliteFile(folder.shard_file(4), schema=shard_schema(), runner=runner, clock=clock)
        store = SqliteUrlStore(file, 4, SystemRandom())
        await store.notify(DAMAGED_SEGMENT, "", "A-1.warc.gz at byte 5000", "A-1.warc.gz", 1)
        await store.delivered(await store.notices())
        assert await store.notices() == []
        await file.close()

    asyncio.run(tell())
    assert "damaged  A-1.warc.gz at byte 5000" in limpet("status", folder.path).stdout
    assert limpet("status", folder.path, "--json").json["damaged"] == ["A-1.warc.gz at byte 5000"]
    told = limpet("failures", folder.path)
    assert (told.code, told.stdout) == (1, "damaged\tA-1.warc.gz at byte 5000\t\n")


def test_verify_finds_an_empty_shard(tmp_path: Path) -> None:
    """The other shards are judged all the same."""
    folder = stored(tmp_path)
    (folder / "shards" / "05.sqlite").write_bytes(b"")
    result = limpet("verify", folder, "--json")
    assert result.code == 1, result
    assert any(found["subject"] == "05.sqlite" for found in result.json["findings"])
