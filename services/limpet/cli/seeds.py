"""URLs as users give them: read from arguments and lists, checked, and refused in one line that says what to do.

Nothing here writes: every seed is checked before the first byte of a crawl is.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from limpet.config import ScopeFacts
from limpet.model.errors import UsageError
from limpet.model.urls import InvalidUrl, SplitUrl, canonicalize, is_host_name, split

LINE_BYTES_MAX: Final = 65_536
SHOWN_CHARS_MAX: Final = 200
_AUTHORITY: Final = re.compile(
    r"https?://(?:[^/?#\\]{0,500}@)?(?P<host>\[[^/?#\\]{0,500}\]|[^/?#\\:@]{0,500})(?::(?P<port>[^/?#\\:@]{0,20}))?(?:[/?#\\]|$)",
    re.IGNORECASE,
)
_FORBIDDEN_IN_HOSTS: Final = frozenset('<>^|%`{}"')  # https://url.spec.whatwg.org/#forbidden-domain-code-point
_PORT_MAX: Final = 65_535


class Entry(NamedTuple):
    """One URL as given. `where` is "" for an argument, else file and line."""

    text: str
    where: str


class Seed(NamedTuple):
    """One URL, canonical."""

    url: str
    parts: SplitUrl
    where: str


def read_entries(urls: Iterable[str], lists: Iterable[str]) -> Iterator[Entry]:
    """Arguments first, then the lines of each list. Raises `UsageError` naming an unreadable file."""
    for text in urls:
        yield Entry(text, "")
    for name in lists:
        if name == "-":
            yield from read_list(sys.stdin.buffer, "stdin")
            continue
        try:
            with Path(name).open("rb") as stream:
                yield from read_list(stream, name)
        except OSError as error:
            raise UsageError(f"cannot read {name}: {error.strerror}") from error


def read_list(stream: BinaryIO, name: str) -> Iterator[Entry]:
    """One URL a line; blank lines and lines that begin with `#` do not count. Raises `UsageError` for no text."""
    number = 0
    found = False
    while raw := stream.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(raw) > LINE_BYTES_MAX:
            raise UsageError(
                f"{name}:{number}: the line is longer than {LINE_BYTES_MAX:,} bytes: is it a list of URLs?"
            )
        text = _text(raw, name, number).strip()
        if text and not text.startswith("#"):
            found = True
            yield Entry(text, f"{name}:{number}")
    if not found:
        raise UsageError(f"{name} holds no URL: write one a line")


def check_entries(entries: Iterable[Entry], url_bytes_max: int) -> list[Seed]:
    """Canonical seeds, each once, in order. Raises `UsageError` for the first bad one, counting the others."""
    seeds: dict[str, Seed] = {}
    first, others = "", 0
    for entry in entries:
        try:
            seed = check_url(entry, url_bytes_max)
        except UsageError as error:
            others += bool(first)
            first = first or str(error)
        else:
            seeds.setdefault(seed.url, seed)
    if first:
        more = f" ({others} more of the URLs are bad)" if others else ""
        raise UsageError(first + more)
    return list(seeds.values())


def check_patterns(seeds: Iterable[Seed], scope: ScopeFacts) -> None:
    """The patterns of a crawl are patterns, and none excludes a seed. Raises `UsageError` for the first fault."""
    if not scope.include and not scope.exclude:
        return
    from limpet.admission.patterns import Patterns  # noqa: PLC0415 - takes a while to import

    patterns = Patterns(scope.include, scope.exclude)
    for seed in seeds:
        if patterns.excludes(seed.url):
            place = f"{seed.where}: " if seed.where else ""
            raise UsageError(f"{place}{seed.url} matches an --exclude, which wins: leave out the one or the other")


def check_url(entry: Entry, url_bytes_max: int) -> Seed:
    """One seed. Raises `UsageError` with where, what and the fix."""
    place = f"{entry.where}: " if entry.where else ""
    shown = repr(entry.text if len(entry.text) <= SHOWN_CHARS_MAX else entry.text[:SHOWN_CHARS_MAX] + "…")
    try:
        url = canonicalize(entry.text)
        parts = split(url)
    except InvalidUrl:
        raise UsageError(
            f"{place}{shown} is not an http or https URL: {_host_fault(entry.text) or _fix(entry.text)}"
        ) from None
    if not is_host_name(parts.host):
        raise UsageError(f"{place}{shown} names no possible host: check the part after {parts.scheme}://")
    if len(url) > url_bytes_max:
        raise UsageError(f"{place}{shown} is {len(url):,} bytes long, more than {url_bytes_max:,}: leave it out")
    return Seed(url, parts, entry.where)


def _host_fault(text: str) -> str:
    """What is wrong with the host or port, "" when it may be something else."""
    found = _AUTHORITY.match(text.strip())
    if found is None:
        return ""
    host, port = found["host"], found["port"]
    if not host:
        return "it names no host"
    bad = next((char for char in host if char.isspace() or char in _FORBIDDEN_IN_HOSTS), "")
    if bad:
        name = "a space" if bad.isspace() else f"{bad!r}"
        return f"its host {host!r} holds {name}; write the host name alone after ://"
    if port and not (port.isascii() and port.isdigit() and int(port) <= _PORT_MAX):
        return f"its port {port!r} is no number up to {_PORT_MAX:,}"
    return f"its host {host!r} is no host name"


def _fix(text: str) -> str:
    guess = f"https://{text}"
    try:
        parts = split(canonicalize(guess))
    except InvalidUrl:
        return "write it as https://example.org/path"
    plausible = "://" not in text and not text.startswith("/") and is_host_name(parts.host) and "." in parts.host
    return f"write {canonicalize(guess)}" if plausible else "write it as https://example.org/path"


def _text(raw: bytes, name: str, number: int) -> str:
    try:
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        byte = raw[error.start]
        raise UsageError(f"{name}:{number}: not UTF-8 text (byte 0x{byte:02x}): is it a list of URLs?") from None
    if "\0" in text:
        raise UsageError(f"{name}:{number}: not text (a zero byte): is it a list of URLs?")
    return text
