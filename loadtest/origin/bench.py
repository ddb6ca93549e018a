"""The web that measures speed: a million pages if need be, each costing the origin next to nothing.

Every page is one of a few templates with slots of fixed length for its title and links. The text between the slots
is compressed once; a slot goes into the same deflate stream as a stored block (RFC 1951, 3.2.4). Because slots
have a fixed length, the distances of back-references that span a slot stay right whatever the slot holds.
"""

import random
import struct
import zlib
from dataclasses import dataclass
from functools import cached_property

from origin.seeded import Prose, number, shorts
from origin.web import HostRules, Kind, Web
from origin.wire import GZIP, HTML, Answer, Request, not_found, plain

_BRANCHES = 4
_STYLE = Answer(200, b"body{max-width:40em}\n", b"Content-Type: text/css\r\n")
_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"


@dataclass(frozen=True, slots=True)
class _Template:
    """`plain` and `packed` alternate text and room for a slot, beginning and ending with text."""

    plain: tuple[bytes, ...]
    packed: tuple[bytes, ...]


class BenchWeb(Web):
    """`hosts` hosts with `pages` pages each; about 72 KB and 50 links a page, half of them to other hosts.

    Page n of a host links pages 4n+1 to 4n+4, so all are found from the host's root; roots link each other too.
    """

    name = "bench"

    def __init__(
        self,
        *,
        seed: int,
        port: int,
        hosts: int = 1000,
        pages: int = 100,
        page_bytes: int = 72_000,
        links: int = 50,
        templates: int = 32,
    ) -> None:
        super().__init__(seed=seed, port=port)
        self._hosts = [_address(index) for index in range(hosts)]
        self._index = {name: index for index, name in enumerate(self._hosts)}
        self._pages = pages
        self._links = links // 2 * 2
        self._local = [_slot(b'<a class="local" href="%b">', _path(page), self._slot_bytes) for page in range(pages)]
        self._starts = [b'<a href="http://%b:%d' % (name.encode(), port) for name in self._hosts]
        room = self._slot_bytes - len(self._starts[0])
        self._ends = [_slot(b'%b">', _path(page), room) for page in range(pages)]
        self._page_bytes = page_bytes
        self._template_count = templates
        self._robots = plain(HostRules(disallowed=("/private/",)).robots_text())

    @cached_property
    def _templates(self) -> list[_Template]:
        sizes = [len(b"<title>Notes 1234567 of 127.100.100.100</title>")] + [self._slot_bytes] * self._links
        prose = Prose(self.seed)
        names = (number(self.seed, index) for index in range(self._template_count))
        return [_template(prose, name, self._page_bytes, sizes) for name in names]

    def warm(self) -> None:
        """Write and compress the templates."""
        assert self._templates

    @property
    def _slot_bytes(self) -> int:
        return len(b'<a href="http://127.100.100.100:%d/notes/0000000.html">' % self.port)

    def seeds(self) -> tuple[str, ...]:
        """The root of every host."""
        return tuple(self.url(name) for name in self._hosts)

    def rules(self, host: str) -> HostRules:
        """One disallowed folder that nothing links to: robots.txt must be read, and costs no page."""
        _ = host
        return HostRules(disallowed=("/private/",))

    def expected(self) -> dict[str, Kind]:
        """Every page of every host, and a style sheet."""
        targets: list[tuple[str, Kind]] = [(_path(page).decode(), "page") for page in range(self._pages)]
        targets.append(("/style.css", "requisite"))
        return {self.url(name, target): kind for name in self._hosts for target, kind in targets}

    def answer(self, request: Request) -> Answer:
        """A page made from its template, gzip'd if that is accepted."""
        host = self._index.get(request.host, -1)
        page = self._page_of(request.target)
        if host >= 0 and 0 <= page < self._pages:
            return self._packed(host, page) if request.offers_gzip else self._plain(host, page)
        if host >= 0 and request.target == "/robots.txt":
            return self._robots
        if host >= 0 and request.target == "/style.css":
            return _STYLE
        return not_found()

    def _page_of(self, target: str) -> int:
        if target == "/":
            return 0
        digits = target[7:14]
        return int(digits) if digits.isdecimal() and target == f"/notes/{digits}.html" != "/notes/0000000.html" else -1

    def _slots(self, host: int, page: int) -> list[bytes]:
        """The title, then links within the host (children first) and to others by turns."""
        pairs = self._links // 2
        chance = shorts(self.seed, host, page, 3 * pairs)
        first = _BRANCHES * page + 1
        near = [*range(first, min(first + _BRANCHES, self._pages)), *chance[:pairs]][:pairs]
        hosts, pages = chance[pairs : 2 * pairs], chance[2 * pairs :]
        if page == 0:
            hosts, pages = (host + 1, *hosts[1:]), (0, *pages[1:])
        starts, ends, local = self._starts, self._ends, self._local
        host_count, page_count = len(starts), self._pages
        slots = [b"<title>Notes %7d of %b</title>" % (page, self._hosts[host].encode())]
        for inner, outer_host, outer_page in zip(near, hosts, pages, strict=True):
            slots.append(local[inner % page_count])
            slots.append(starts[outer_host % host_count] + ends[outer_page % page_count])
        return slots

    def _packed(self, host: int, page: int) -> Answer:
        template = self._templates[(host + page) % len(self._templates)]
        slots = self._slots(host, page)
        text, packed = list(template.plain), list(template.packed)
        text[1::2] = packed[1::2] = slots
        whole = b"".join(text)
        packed.append(struct.pack("<II", zlib.crc32(whole), len(whole)))
        return Answer(200, b"".join(packed), HTML + GZIP)

    def _plain(self, host: int, page: int) -> Answer:
        text = list(self._templates[(host + page) % len(self._templates)].plain)
        text[1::2] = self._slots(host, page)
        return Answer(200, b"".join(text), HTML)


def _address(index: int) -> str:
    """The index-th address of 127/8 whose parts all have three digits, so that links have one length."""
    return f"127.{100 + index // 10_000}.{100 + index // 100 % 100}.{100 + index % 100}"


def _path(page: int) -> bytes:
    return b"/notes/%07d.html" % page if page else b"/"


def _slot(form: bytes, path: bytes, size_bytes: int) -> bytes:
    """A tag brought to its size with white space before its end."""
    tag = form % path
    return tag[:-1].ljust(size_bytes - 1) + b">"


def _template(prose: Prose, name: int, page_bytes: int, slot_sizes: list[int]) -> _Template:
    texts = _texts(prose, name, page_bytes - sum(slot_sizes), len(slot_sizes) - 1)
    return _Template(tuple(_spread(texts)), tuple(_spread(_compress(texts, slot_sizes, name))))


def _texts(prose: Prose, name: int, size_bytes: int, links: int) -> list[bytes]:
    """What stands before, between and after the slots, `size_bytes` in all or slightly more."""
    head = b'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    start = b'<link rel="stylesheet" href="/style.css"></head>\n<body><main>\n<p>'
    tail = b"</main></body></html>\n"
    fixed = len(head + start + tail) + links * len("and so on</a> .</p>\n<p class='entry'>")
    share = max(2, (size_bytes - fixed) // (links + 1))
    words = [prose.paragraph(name + place, share).encode() for place in range(links + 1)]
    between = [b"and so on</a> " + text + b".</p>\n<p class='entry'>" for text in words[1:]]
    return [head, start + words[0], *between[:-1], between[-1] + b"</p>" + tail]


def _spread(texts: list[bytes]) -> list[bytes]:
    """Texts with room for a slot between each two."""
    return [part for text in texts for part in (text, b"")][:-1]


def _compress(texts: list[bytes], slot_sizes: list[int], name: int) -> list[bytes]:
    """Each text as deflate blocks of one stream that end on a byte, followed by the head of a stored block.

    While compressing, a slot is filled with bytes that no text holds, so no later text can refer back into it;
    what the compressor makes of the filling is thrown away.
    """
    filling = random.Random(name)
    packer = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = []
    for text, size in zip(texts, slot_sizes, strict=False):
        blocks = packer.compress(text) + packer.flush(zlib.Z_SYNC_FLUSH)
        packed.append(blocks + struct.pack("<BHH", 0, size, size ^ 0xFFFF))
        packer.compress(bytes(filling.choices(range(0x80, 0x100), k=size)))
        packer.flush(zlib.Z_SYNC_FLUSH)
    packed.append(packer.compress(texts[-1]) + packer.flush(zlib.Z_FINISH))
    return [_GZIP_HEAD + packed[0], *packed[1:]]
