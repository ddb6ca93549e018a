"""Other people's tools that judge an archive: jwarc, from Maven, and pywb, from a virtual environment of its own.

Both are made under build/validators at the first run: pywb's dependencies are not ours.
"""

import http.client
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import pytest

BUILD = Path(__file__).parents[2] / "build" / "validators"
JWARC = "org.netpreserve:jwarc:0.36.0"
PYWB = ("pywb==2.10.0", "setuptools<81")  # it imports pkg_resources
SECONDS_MAX = 300


def run(*words: str | Path) -> tuple[int, str]:
    """Exit code and what was printed."""
    done = subprocess.run(
        [*map(str, words)], capture_output=True, check=False, timeout=SECONDS_MAX, cwd=BUILD.parent.parent
    )
    return done.returncode, (done.stdout + done.stderr).decode(errors="replace")


def jwarc_validate(segment: Path, *words: str) -> list[str]:
    """Lines of `jwarc validate` about a segment, its name cut off. Skips the test where there is no java or mvn."""
    jar = BUILD / f"{JWARC.split(':')[1]}-{JWARC.split(':')[2]}.jar"
    if shutil.which("java") is None or shutil.which("mvn") is None:
        pytest.skip("jwarc takes java and mvn, which are not installed here")
    if not jar.is_file():
        code, said = run("mvn", "-q", "dependency:copy", f"-Dartifact={JWARC}", f"-DoutputDirectory={BUILD}")
        assert code == 0, said
    _, said = run("java", "-jar", jar, "validate", *words, segment)
    return [line.rpartition(f"{segment.name}: ")[2] for line in said.splitlines()]


def warcio_check(*segments: Path) -> list[str]:
    """Lines of `warcio check`."""
    _, said = run(sys.executable, "-m", "warcio.cli", "check", *segments)
    return said.splitlines()


class Replay:
    """pywb over segments and our own indexes of them, while the `with` lasts; ended by its pid.

    Without `banner`, pages are replayed in no frame, and nothing is drawn over them.
    """

    def __init__(self, path: Path, segments: Sequence[Path], *, banner: bool = True) -> None:
        if not banner:
            (path / "config.yaml").write_text("framed_replay: false\n")
            (path / "templates").mkdir()
            for name in ("banner.html", "custom_banner.html"):
                (path / "templates" / name).touch()
        collection = path / "collections" / "limpet"
        for name in ("archive", "indexes"):
            (collection / name).mkdir(parents=True)
        lines: list[bytes] = []
        for segment in segments:
            shutil.copy(segment, collection / "archive")
            lines += segment.with_name(segment.name + ".cdxj").read_bytes().splitlines(keepends=True)
        (collection / "indexes" / "index.cdxj").write_bytes(b"".join(sorted(lines)))
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self._path = path

    def __enter__(self) -> Self:
        _install_pywb()
        command = [BUILD / "pywb" / "bin" / "wayback", "-b", "127.0.0.1", "-p", str(self.port)]
        with (self._path / "log").open("wb") as log:
            self._process = subprocess.Popen(list(map(str, command)), cwd=self._path, stdout=log, stderr=log)
        for _ in range(600):
            try:
                self.ask("http://nowhere.test/")
            except OSError:
                time.sleep(0.1)
            else:
                return self
        raise AssertionError("pywb does not answer")

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    def address(self, url: str, timestamp: str = "2", mode: str = "") -> str:
        """Where a URL is replayed."""
        return f"http://127.0.0.1:{self.port}/limpet/{timestamp}{mode}/{url}"

    def ask(self, url: str, timestamp: str = "2") -> tuple[int, bytes]:
        """Status and body of the raw (`id_`) replay; a body that is shorter than it promises comes as far as it is."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            headers = {"Accept-Encoding": "gzip, deflate", "Connection": "close"}
            connection.request("GET", f"/limpet/{timestamp}id_/{url}", headers=headers)
            response = connection.getresponse()
            try:
                return response.status, response.read()
            except http.client.IncompleteRead as error:
                return response.status, error.partial
        finally:
            connection.close()


def _install_pywb() -> None:
    venv = BUILD / "pywb"
    if not (venv / "bin" / "wayback").is_file():
        for words in ((sys.executable, "-m", "venv", venv), (venv / "bin" / "pip", "install", "-q", *PYWB)):
            code, said = run(*words)
            assert code == 0, said
