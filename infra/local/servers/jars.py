"""Servers that are published as Java archives: fetched through Maven once, kept in the cache, started from there."""

import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from servers.folder import Folder, locked
from servers.service import Say
from servers.trouble import Trouble

DOWNLOAD_SECONDS_MAX: Final = 1800
MAVEN: Final = ("mvn", "-B", "-q", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=lib")
OPEN_PROJECT: Final = (
    '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>local</groupId>'
    "<artifactId>servers</artifactId><version>1</version><packaging>pom</packaging><dependencies>\n"
)


@dataclass(frozen=True)
class Jars:
    """Pinned artifacts, `group:name:version` each, with all that they need."""

    name: str
    artifacts: tuple[str, ...]

    def pom(self) -> str:
        """The project file that asks Maven for them."""
        lines = []
        for artifact in self.artifacts:
            group, name, version = artifact.split(":")
            lines.append(
                f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
                f"<version>{version}</version></dependency>\n"
            )
        return OPEN_PROJECT + "".join(lines) + "</dependencies></project>\n"

    def path(self, folder: Folder) -> Path:
        """Where they are kept; another version has another place."""
        digest = hashlib.sha256(self.pom().encode()).hexdigest()[:12]
        return folder.cache / f"{self.name}-{digest}" / "lib"

    def fetch(self, folder: Folder, say: Say) -> Path:
        """Download them unless they are there; the folder of the jars."""
        lib = self.path(folder)
        if lib.is_dir():
            return lib
        with locked(folder.cache / f".{self.name}.lock"):
            if not lib.is_dir():
                say(f"{self.name}: fetching jars with Maven into {lib.parent}")
                self._download(lib)
        return lib

    def _download(self, lib: Path) -> None:
        with tempfile.TemporaryDirectory(dir=lib.parent.parent, prefix=f".{self.name}-") as place:
            (Path(place) / "pom.xml").write_text(self.pom())
            try:
                done = subprocess.run(
                    MAVEN, cwd=place, capture_output=True, text=True, check=False, timeout=DOWNLOAD_SECONDS_MAX
                )
            except subprocess.TimeoutExpired as error:
                raise Trouble(f"Maven took over {DOWNLOAD_SECONDS_MAX} s for the jars of {self.name}") from error
            if done.returncode != 0:
                said = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
                raise Trouble(f"Maven could not fetch the jars of {self.name}: {said[0] if said else done.stderr}")
            lib.parent.mkdir(parents=True, exist_ok=True)
            (Path(place) / "lib").rename(lib)


def jvm(heap_megabytes: int, class_path: Sequence[Path | str], *flags: str) -> tuple[str, ...]:
    """A small JVM that starts fast and dies when it is out of memory."""
    return (
        "java",
        "-Xms64m",
        f"-Xmx{heap_megabytes}m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Xshare:auto",
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.net.preferIPv4Stack=true",
        *flags,
        "-cp",
        ":".join(map(str, class_path)),
    )
