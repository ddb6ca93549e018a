"""A real web server over a directory, with a log of what it was asked."""

import os
import re
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

_LINE = re.compile(r'(?P<status>\d+) "(?P<target>.*)" "(?P<type>.*)" "(?P<agent>.*)"')
_CONFIG = """\
daemon off; master_process off;
pid nginx.pid; error_log error.log;
events {{ worker_connections 512; }}
http {{
  include /etc/nginx/mime.types; default_type application/octet-stream;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  log_format judge '$status "$request_uri" "$sent_http_content_type" "$http_user_agent"';
  access_log access.log judge;
  gzip on;
  server {{
    listen 127.0.0.1:{port};
    root {root};
    location = /robots.txt {{ return 200 "User-agent: *\\nDisallow: /private/\\n"; }}
  }}
}}
"""


@dataclass(frozen=True)
class Answer:
    """What the server said to the first request for a target."""

    status: int
    is_html: bool


class Nginx:
    """nginx in the foreground on a loopback port, all its files in one directory; ended by its pid."""

    def __init__(self, directory: Path, root: Path) -> None:
        self._directory = directory
        directory.mkdir()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        (directory / "nginx.conf").write_text(_CONFIG.format(port=self.port, root=root))

    def __enter__(self) -> Self:
        command = [tool("nginx"), "-p", str(self._directory), "-c", "nginx.conf"]
        with (self._directory / "output").open("wb") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        give_up = time.perf_counter() + 10
        while not self._answers():
            assert self._process.poll() is None, (self._directory / "output").read_text()
            assert time.perf_counter() < give_up, "nginx does not answer"
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(timeout=10)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def url(self, target: str) -> str:
        """A target as an absolute URL."""
        return f"http://127.0.0.1:{self.port}{target}"

    def asked(self, agent: str) -> dict[str, Answer]:
        """What a client was answered, by the target as it was sent. Only after `__exit__` is it complete."""
        lines = (self._directory / "access.log").read_text().splitlines()
        found: dict[str, Answer] = {}
        for match in filter(None, map(_LINE.fullmatch, lines)):
            if match["agent"].lower().startswith(agent):
                answer = Answer(int(match["status"]), match["type"].startswith("text/html"))
                found.setdefault(match["target"], answer)
        return found


def tool(name: str) -> str:
    """The path of a program. Skips the test where it is not installed."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found
