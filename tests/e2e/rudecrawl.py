"""One crawl of the rude web through the command line, and its archive as another program reads it."""

import contextlib
import io
import json
import socket
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from warcio.archiveiterator import ArchiveIterator

from e2e.command import OWNED, Result, limpet
from limpet.cli.main import main
from origin import OriginProcess, requests_by_url
from origin.rude import RudeWeb

BODY_BYTES_MAX = 300_000
WALL_SECONDS_MAX = 2.5
TRIES_MAX = 3
CONFIG = f"""
[fetching]
connect_seconds_max = 1.0
idle_seconds_max = 1.2
wall_seconds_max = {WALL_SECONDS_MAX}
body_bytes_max = {BODY_BYTES_MAX}
[retries]
base_seconds = 0.2
factor = 1.0
failures_max = {TRIES_MAX}
"""
PATIENCE = "3s"  # longer than what the rude hosts that relent ask for, shorter than any wait for a robots.txt


@dataclass(frozen=True)
class Archived:
    """One response record: its WARC header, HTTP status, payload as sent (transfer coding removed) and decoded."""

    truncated: str
    status: str
    headers: dict[str, str]
    payload: bytes
    digest: str


class RudeCrawl:
    """Crawls all hosts of the rude web and one where nobody listens; then once more, when all that is left waits."""

    def __init__(self, path: Path) -> None:
        self.folder = path / "crawl"
        (path / "config.toml").write_text(CONFIG)
        self.origin = OriginProcess("rude", log_path=path / "origin.log")
        with self.origin, closed_port() as port:
            self.refusing = f"http://127.0.2.200:{port}"
            (path / "seeds.txt").write_text("\n".join([*self.origin.seeds, self.refusing + "/"]))
            self.result = self._crawl("-i", path / "seeds.txt", "--config", path / "config.toml")
            self.requests = Counter(requests_by_url(self.origin.events()))
            self.again = self._crawl()
        self.web = cast("RudeWeb", self.origin.web)
        self.requests_again = requests_by_url(self.origin.events()) - self.requests

    def _crawl(self, *words: str | Path) -> Result:
        return limpet(
            "crawl", *words, "--into", self.folder, *OWNED, "--workers", "2", "--patience", PATIENCE, "--json"
        )

    def url(self, habit: str, target: str = "/") -> str:
        """A URL of the host with a habit."""
        return self.web.url(self.web.host(habit), target)

    def asked(self, habit: str, target: str = "/") -> int:
        """How often the witness was asked for a target in the first run."""
        return self.requests[self.url(habit, target)]

    def show(self, habit: str, target: str = "/") -> dict[str, Any]:
        """What `limpet show --json` says."""
        return show(self.folder, self.url(habit, target))

    def waits(self, result: Result) -> dict[str, dict[str, Any]]:
        """Authority -> what the summary of a run says of its wait."""
        return {entry["authority"]: entry for entry in result.json["waiting"]}

    def archived(self, habit: str, target: str = "/") -> list[Archived]:
        """Response records of a URL in the order of the archive."""
        return self._archive.get(self.url(habit, target), [])

    @cached_property
    def _archive(self) -> dict[str, list[Archived]]:
        found: dict[str, list[Archived]] = {}
        for segment in sorted((self.folder / "segments").glob("*.warc.gz")):
            with segment.open("rb") as stream:
                for record in ArchiveIterator(stream):
                    if record.rec_type == "response":
                        url = record.rec_headers.get_header("WARC-Target-URI")
                        found.setdefault(url, []).append(_archived(record))
        return found


def _archived(record: Any) -> Archived:
    headers = {name.lower(): value for name, value in record.http_headers.headers}
    block = record.raw_stream.read()
    return Archived(
        truncated=record.rec_headers.get_header("WARC-Truncated") or "",
        status=record.http_headers.get_statuscode(),
        headers=headers,
        payload=dechunked(block) if headers.get("transfer-encoding") == "chunked" else block,
        digest=record.rec_headers.get_header("WARC-Payload-Digest"),
    )


def dechunked(block: bytes) -> bytes:
    """A chunked body without its framing, as far as it goes."""
    parts = []
    while block:
        size, _, block = block.partition(b"\r\n")
        if not size.strip() or not int(size, 16):
            break
        parts.append(block[: int(size, 16)])
        block = block[int(size, 16) + 2 :]
    return b"".join(parts)


def show(folder: Path, url: str) -> dict[str, Any]:
    """`limpet show --json`, called in this process: thirty starts of Python would take longer than the crawl."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = main(["show", str(folder), url, "--json"])
    assert code == 0, url
    shown: dict[str, Any] = json.loads(printed.getvalue())
    return shown


class closed_port:  # noqa: N801 - reads as a word
    """A port that is taken and refuses connections."""

    def __enter__(self) -> int:
        self._socket = socket.socket()
        self._socket.bind(("127.0.2.200", 0))
        port: int = self._socket.getsockname()[1]
        return port

    def __exit__(self, *_: object) -> None:
        self._socket.close()
