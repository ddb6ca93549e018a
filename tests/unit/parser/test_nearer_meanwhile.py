"""A document may come nearer to a seed while it is parsed: its links then go out once more, with the right depth."""

import asyncio
from collections.abc import Sequence

import msgspec

from limpet.model.events import DocumentFetched, decode_links
from limpet.urlstore import ParseOutput
from unit.parser.pages import fetched
from unit.parser.test_heavy_bodies import CountingRunner, Ring, parser_of


class Row(msgspec.Struct):
    """What the parser asks a row for."""

    depth: int
    hops: str = "L"


class Approaching(Ring):
    """A store whose row comes nearer just before each acceptance, until it is at depth 1."""

    def __init__(self, member: bytes, event: DocumentFetched) -> None:
        super().__init__(member, event)
        self.known = Row(event.depth)
        self.accepted: list[ParseOutput] = []

    async def row(self, _fp: bytes) -> Row:
        """See `UrlStore.row`."""
        return self.known

    async def accept_outputs(self, outputs: Sequence[object], _job: object) -> list[bool]:
        """See `UrlStore.accept_outputs`."""
        (output,) = outputs
        assert isinstance(output, ParseOutput)
        self.known = Row(max(1, self.known.depth - 1))
        if output.depth > self.known.depth:
            return [False]
        self.accepted.append(output)
        return [True]


def test_links_go_out_again_until_their_depth_is_right() -> None:
    """Each refusal is followed by another attempt in the same step, so that no run ends with a body unparsed."""
    member, event = fetched(b"<a href=/x>")
    ring = Approaching(member, msgspec.structs.replace(event, depth=3))
    assert asyncio.run(parser_of(ring, CountingRunner(), depth_counts=True).step()) == 1
    depths = [page.depth for payloads in ring.published for payload in payloads for page in decode_links(payload).pages]
    assert depths == [3, 2, 1]
    assert [output.depth for output in ring.accepted] == [1]
