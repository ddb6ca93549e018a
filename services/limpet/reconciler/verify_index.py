"""The CDXJ of a sealed segment against its records: every response has its line, every line its response."""

from collections.abc import Iterator
from typing import Final

import msgspec

from limpet.reconciler.kinds import VerifyKind as Kind
from limpet.reconciler.report import Collector
from limpet.warc import Member, WarcError, surt
from limpet.warc.http_block import head_of


class _Entry(msgspec.Struct, frozen=True):
    """What a line says of its record; numbers are text, as replay tools write them."""

    url: str
    status: str
    digest: str
    length: str
    offset: str
    filename: str


_ENTRY: Final = msgspec.json.Decoder(_Entry)


class IndexCheck:
    """The lines of one index by offset. `check` takes each response out; what is left at the end has no record."""

    def __init__(self, segment: str, index: bytes, out: Collector) -> None:
        self._segment = segment
        self._out = out
        self._lines: dict[int, bytes] = {}
        self._load(index)

    def offsets(self) -> Iterator[int]:
        """Where the index says that responses begin and none was met yet, unordered."""
        return iter(self._lines)

    def check(self, member: Member) -> None:
        """A response or revisit record that was read."""
        line = self._lines.pop(member.offset, None)
        if line is None:
            self._out.find(Kind.INDEX_LINE_MISSING, self._at(member.offset), f"{member.header.uri} has no line")
            return
        wrong = [f"{name} is {said!r}, not {true!r}" for name, said, true in _compared(line, member, self._segment)]
        if wrong:
            self._out.find(Kind.INDEX_LINE_WRONG, self._at(member.offset), "; ".join(wrong))

    def forgive(self, offset: int) -> None:
        """The record at `offset` is damaged, which was said: its line is not one too many."""
        self._lines.pop(offset, None)

    def finish(self) -> None:
        """Every record was read."""
        for offset, line in sorted(self._lines.items()):
            detail = f"no response begins here: {_shown(line)}"
            self._out.find(Kind.INDEX_LINE_EXTRA, self._at(offset), detail)

    def _load(self, index: bytes) -> None:
        before = b""
        for line in index.splitlines(keepends=True):
            if line < before:
                self._out.find(Kind.INDEX_UNSORTED, self._segment, f"{_shown(line)} comes after {_shown(before)}")
            before = line
            offset = _offset(line)
            if offset is None or offset in self._lines:
                self._out.find(Kind.INDEX_LINE_EXTRA, self._segment, f"no line, or one too many: {_shown(line)}")
            else:
                self._lines[offset] = line
            self._out.checked["index_lines"] += 1

    def _at(self, offset: int) -> str:
        return f"{self._segment}+{offset}"


def _offset(line: bytes) -> int | None:
    _, _, text = line.partition(b" ")
    try:
        offset = _ENTRY.decode(text.partition(b" ")[2]).offset
    except msgspec.MsgspecError:
        return None
    return int(offset) if offset.isascii() and offset.isdigit() and len(offset) < 19 else None


def _compared(line: bytes, member: Member, segment: str) -> Iterator[tuple[str, str, str]]:
    """(column, what it says, what it should say) for each that is wrong."""
    key, _, rest = line.partition(b" ")
    stamp, _, text = rest.partition(b" ")
    entry, header = _ENTRY.decode(text), member.header
    date = header.get("WARC-Date")
    pairs = (
        ("key", key.decode("utf-8", "replace"), surt(header.uri)),
        ("timestamp", stamp.decode("utf-8", "replace"), "".join(filter(str.isdigit, date[:19]))),
        ("url", entry.url, header.uri),
        ("status", entry.status, _status(member)),
        ("digest", entry.digest, header.get("WARC-Payload-Digest") or "-"),
        ("length", entry.length, str(member.length)),
        ("filename", entry.filename, segment),
    )
    yield from ((name, said, true) for name, said, true in pairs if said != true)


def _status(member: Member) -> str:
    try:
        return str(head_of(member.block_start)[0].status)
    except WarcError:
        return "-"


def _shown(line: bytes) -> str:
    return line[:160].decode("utf-8", "replace").strip()


def indexed_offsets(index: bytes) -> Iterator[int]:
    """Where the lines of an index say that responses begin, as far as they can be read."""
    return (offset for line in index.splitlines() if (offset := _offset(line)) is not None)
