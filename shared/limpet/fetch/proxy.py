"""One explicit HTTP proxy: a tunnel to the address that the gate has judged, for every scheme.

The proxy is told an address, never a name: what it connects to is what was checked. Name, path and headers go through
the tunnel to the site alone. Proxies of the environment are never looked at.
"""

import base64
import os
import re
from pathlib import Path
from typing import Final

import ada_url
import msgspec

from limpet.fetch.head import parse_head
from limpet.fetch.port import NetFailure
from limpet.model.errors import UsageError

CREDENTIALS_VARIABLE: Final = "LIMPET_PROXY_CREDENTIALS"
"""Environment variable that may hold `user:password`."""

REPLY_BYTES_MAX: Final = 16_384

_FORM: Final = re.compile(r"http://[^/@?#\s]+/?", re.ASCII)
_CREDENTIALS_CHARS_MAX: Final = 1_000
_TARGET_STATUS: Final = frozenset({502, 503, 504})
"""How proxies say that they work and the site could not be reached (RFC 9110 §15.6.3; Squid answers 503)."""


class Proxy(msgspec.Struct, frozen=True):
    """Where the proxy is, and what it wants to hear. Its text form does not tell the credentials."""

    host: str
    port: int
    authorization: str = ""  # value of Proxy-Authorization

    def __repr__(self) -> str:
        """Without credentials: a fault report may quote it."""
        return f"Proxy({self.host}:{self.port})"

    def request(self, address: str, port: int) -> bytes:
        """What asks for a tunnel to `address`."""
        authority = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        credentials = f"Proxy-Authorization: {self.authorization}\r\n" if self.authorization else ""
        return f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{credentials}\r\n".encode("ascii")


def parse_proxy(url: str, credentials: str = "") -> Proxy:
    """`http://HOST:PORT`, with `credentials` of the form user:password. Raises `UsageError`, never quoting a secret."""
    if "@" in url:
        raise UsageError(
            f"--proxy: no credentials in the URL, where every user of this machine can read them: put user:password "
            f"into the environment variable {CREDENTIALS_VARIABLE} or a file (--proxy-credentials FILE)"
        )
    try:
        parsed = ada_url.URL(url if url.endswith("/") else url + "/") if _FORM.fullmatch(url) else None
    except ValueError:
        parsed = None
    if parsed is None or not parsed.hostname:
        raise UsageError(f"--proxy {url!r} is not of the form http://HOST:PORT")
    if credentials and not _is_credentials(credentials):
        raise UsageError("the proxy's credentials are not of the form user:password")
    token = base64.b64encode(credentials.encode()).decode("ascii") if credentials else ""
    return Proxy(parsed.hostname, int(parsed.port or 80), f"Basic {token}" if token else "")


def read_proxy(url: str, credentials_file: str) -> Proxy | None:
    """The proxy of a process, its credentials out of the file, else out of the environment. Raises `UsageError`."""
    if not url:
        return None
    if not credentials_file:
        return parse_proxy(url, os.environ.get(CREDENTIALS_VARIABLE, ""))
    try:
        credentials = Path(credentials_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the proxy's credentials cannot be read from {credentials_file}: {error}") from error
    return parse_proxy(url, credentials)


def refusal(head: bytes) -> NetFailure | None:
    """Why a proxy's answer to a request for a tunnel is none, or None when the tunnel stands."""
    parsed = parse_head(head)
    if isinstance(parsed, str):
        return NetFailure(kind="proxy", detail=f"the proxy's answer is {parsed}")
    if 200 <= parsed.status < 300:
        return None
    if parsed.status in _TARGET_STATUS:
        return NetFailure(kind="connect", detail=f"the proxy cannot reach it: HTTP {parsed.status}")
    return NetFailure(kind="proxy", detail=f"the proxy refuses: HTTP {parsed.status}")


def _is_credentials(text: str) -> bool:
    return ":" in text and len(text) <= _CREDENTIALS_CHARS_MAX and text.isprintable()
