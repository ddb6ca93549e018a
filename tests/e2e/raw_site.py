"""Servers that answer byte for byte as a test says, a crawl of them by the command line, and its archive read back."""

import asyncio
import contextlib
import io
import json
import os
import ssl
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from warcio.archiveiterator import ArchiveIterator

from e2e.command import LIMPET, SECONDS_MAX, Result
from limpet.cli.main import main
from limpet.clock import SystemClock
from limpet.testing.web import RawOrigin, Step
from limpet.warc import Record, members, parse_record, split_response
from scenarios.procfs import family, usages

AUTHORITY = b"@AUTHORITY@"
"""Stands for `host:port` of the site in what it sends."""
NOT_FOUND: tuple[Step, ...] = (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",)
ROBOTS = "/robots.txt"
BLOCK_BYTES_MAX = 100_000_000
LOOK_SECONDS = 0.1

Steps = Sequence[Step]
Answer = bytes | Steps | Callable[[int], Steps]
"""Bytes, a script, or what makes a script out of the number of earlier requests for the target."""


def ok(body: bytes, *fields: bytes) -> bytes:
    """A plain page, ended by the connection."""
    return answer(b"200 OK", body, *(fields or (b"Content-Type: text/html",)))


def answer(status: bytes, body: bytes = b"", *fields: bytes) -> bytes:
    """Status line, fields and body; no length, so the body may hold `AUTHORITY`."""
    return b"\r\n".join([b"HTTP/1.1 " + status, *fields, b"", body])


def moved(location: bytes) -> bytes:
    """A redirect."""
    return answer(b"302 Found", b"", b"Location: " + location, b"Content-Length: 0")


@dataclass
class Site:
    """One server: request target -> answer. `default` is for other targets; robots.txt is 404 unless it is said."""

    answers: Mapping[str, Answer] = field(default_factory=dict)
    seeds: Sequence[str] = ("/",)
    default: Answer = NOT_FOUND
    host: str = ""  # an address; by default the next one of 127.0.9.0/24
    name: str = ""  # host name in its URLs; by default the address
    tls: ssl.SSLContext | None = None
    port: int = 0


class RawSites:
    """Sites that serve, in a thread of their own, while the `with` lasts. What they were asked stays to be read."""

    def __init__(self, sites: Mapping[str, Site]) -> None:
        self._sites = dict(sites)
        self._origins: dict[str, RawOrigin] = {}
        self._visits: dict[str, Counter[str]] = {name: Counter() for name in sites}
        self._ready, self._stop = threading.Event(), asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        if self._fault is not None:
            self._thread.join()
            raise self._fault
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with contextlib.AsyncExitStack() as stack:
            try:
                for number, (name, site) in enumerate(self._sites.items()):
                    host = site.host or f"127.0.9.{number + 1}"
                    script = self._script(name, site)
                    origin = RawOrigin(script, SystemClock(), host=host, tls=site.tls, port=site.port)
                    self._origins[name] = await stack.enter_async_context(origin)
            except OSError as error:
                self._fault = error
            finally:
                self._ready.set()
            if self._fault is None:
                await self._stop.wait()

    def _script(self, name: str, site: Site) -> Callable[[bytes], Steps]:
        def script(head: bytes) -> Steps:
            target = _target(head)
            visit = self._visits[name][target]
            self._visits[name][target] += 1
            found = site.answers.get(target, NOT_FOUND if target == ROBOTS else site.default)
            steps = found(visit) if callable(found) else found
            authority = self.authority(name).encode()
            steps = (steps,) if isinstance(steps, bytes) else steps
            return [step.replace(AUTHORITY, authority) if isinstance(step, bytes) else step for step in steps]

        return script

    def authority(self, name: str) -> str:
        """Host and port."""
        return self.url(name, "").partition("://")[2]

    def url(self, name: str, target: str = "/") -> str:
        """A URL of a site."""
        return self._origins[name].url(target, self._sites[name].name or None)

    @property
    def seeds(self) -> list[str]:
        """Where a crawl of all sites begins."""
        return [self.url(name, target) for name, site in self._sites.items() for target in site.seeds]

    def heads(self, name: str) -> list[bytes]:
        """Request heads that a site received."""
        return list(self._origins[name].requests)

    def connections(self, name: str) -> int:
        """Connections that a site accepted."""
        return self._origins[name].connections

    def asked(self, name: str) -> list[str]:
        """Request targets in the order of arrival, without those for robots.txt."""
        return [target for head in self.heads(name) if (target := _target(head)) != ROBOTS]

    def asked_robots(self, name: str) -> int:
        """How often robots.txt was asked for."""
        return sum(_target(head) == ROBOTS for head in self.heads(name))


def _peak_bytes(process: subprocess.Popen[bytes]) -> int:
    """The most memory that one process of the family had until its end.

    Not from wait4: the peak of a process begins with that of the one it was forked from, which is the test runner.
    """
    peak_bytes = 0
    while process.poll() is None:
        used = usages(family(process.pid)).values()
        peak_bytes = max(peak_bytes, *(one.rss_bytes_max for one in used), 0)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LOOK_SECONDS)
    return peak_bytes


def _target(head: bytes) -> str:
    return head.split(b" ", 2)[1].decode("ascii", "surrogateescape")


@dataclass(frozen=True)
class Stored:
    """A response record as warcio reads its WARC header, and its block and payload as our own reader does."""

    fields: Mapping[str, str]
    block: bytes
    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    payload: bytes

    @property
    def truncated(self) -> str:
        """WARC-Truncated, "" when there is none."""
        return self.fields.get("WARC-Truncated", "")

    @property
    def payload_digest(self) -> str:
        """WARC-Payload-Digest."""
        return self.fields["WARC-Payload-Digest"]

    @property
    def block_digest(self) -> str:
        """WARC-Block-Digest."""
        return self.fields["WARC-Block-Digest"]


class RawCrawl:
    """One crawl of raw sites through the command line, and what it left behind."""

    def __init__(
        self,
        path: Path,
        sites: RawSites,
        *words: str | Path,
        config: str = "",
        owned: Sequence[str] = ("127.0.0.0/8",),
        seeds: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.folder, self.sites, self._path = path / "crawl", sites, path
        self._env = {**os.environ, **(env or {})}
        self._owned = [word for network in owned for word in ("--owned", network)]
        (path / "config.toml").write_text(config)
        (path / "seeds.txt").write_text("\n".join([*sites.seeds, *seeds]))
        self.result, self.peak_bytes = self.run("-i", path / "seeds.txt", *words)

    def run(self, *words: str | Path) -> tuple[Result, int]:
        """`limpet crawl` to its end: how it ended, and the most memory that one process of it had."""
        command = [*LIMPET, "crawl", "--into", self.folder, *self._owned, "--config", self._path / "config.toml"]
        out, err = self._path / "stdout", self._path / "stderr"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                [*map(str, command), *map(str, words), "--json"],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=self._env,
            )
            watchdog = threading.Timer(SECONDS_MAX, process.kill)
            watchdog.start()
            peak_bytes = _peak_bytes(process)
            watchdog.cancel()
        return Result(process.returncode, out.read_text(), err.read_text()), peak_bytes

    def show(self, name: str, target: str = "/") -> dict[str, Any]:
        """What `limpet show --json` says of a URL of a site."""
        return self.show_url(self.sites.url(name, target))

    def show_url(self, url: str) -> dict[str, Any]:
        """What `limpet show --json` says, called in this process to save dozens of starts."""
        shown: dict[str, Any] = json.loads(self._told("show", url))
        return shown

    @property
    def log(self) -> str:
        """What the workers logged."""
        return "".join(path.read_text() for path in sorted((self.folder / "run").glob("worker-*.log")))

    def verify(self) -> list[Any]:
        """Findings of `limpet verify --links`."""
        findings: list[Any] = json.loads(self._told("verify", "--links"))["findings"]
        return findings

    def audit(self) -> list[Any]:
        """Findings of `limpet audit`."""
        findings: list[Any] = json.loads(self._told("audit"))["findings"]
        return findings

    def _told(self, verb: str, *words: str) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            code = main([verb, str(self.folder), *words, "--json"])
        assert code in {0, 1}, (verb, words)
        return printed.getvalue()

    def state(self, name: str, target: str = "/") -> tuple[str, str]:
        """State and reason of a URL."""
        shown = self.show(name, target)
        return shown["state"], shown["reason"]

    @cached_property
    def rows(self) -> dict[str, tuple[str, str]]:
        """URL -> state and reason."""
        return {row["url"]: (row["state"], row["reason"]) for row in json.loads(self._told("urls"))}

    @property
    def waits(self) -> dict[str, str]:
        """Authority -> why it waits, as the summary says."""
        return {entry["authority"]: entry["reason"] for entry in self.result.json["waiting"]}

    def stored(self, name: str, target: str = "/") -> list[Stored]:
        """Response records of a URL of a site, in the order of the archive."""
        return self.archive.get(self.sites.url(name, target), [])

    def one(self, name: str, target: str = "/") -> Stored:
        """The only one."""
        (record,) = self.stored(name, target)
        return record

    @cached_property
    def archive(self) -> dict[str, list[Stored]]:
        """WARC-Target-URI -> response records."""
        found: dict[str, list[Stored]] = {}
        for segment in self.segments:
            for record, fields in zip(ours(segment), theirs(segment), strict=True):
                if record.type == "response":
                    http = split_response(record.block)
                    stored = Stored(fields, record.block, http.head.status, http.head.headers, http.payload)
                    found.setdefault(record.header.uri, []).append(stored)
        return found

    @property
    def segments(self) -> list[Path]:
        """Sealed segments by name."""
        return sorted((self.folder / "segments").glob("*.warc.gz"))


def ours(segment: Path) -> Iterator[Record]:
    """Records as our own reader has them."""
    data = segment.read_bytes()
    for member in members(lambda offset, size_bytes: data[offset : offset + size_bytes], len(data)):
        yield parse_record(data[member.offset : member.end], block_bytes_max=BLOCK_BYTES_MAX)


def theirs(segment: Path) -> Iterator[dict[str, str]]:
    """WARC header fields of each record as warcio has them."""
    with segment.open("rb") as stream:
        for record in ArchiveIterator(stream, no_record_parse=True):
            yield dict(record.rec_headers.headers)
