"""A DNS server on loopback that answers as a test says."""

import asyncio
import socket
import struct
from collections.abc import Mapping
from typing import Final, Self

import msgspec

NOERROR: Final = 0
SERVFAIL: Final = 2
NXDOMAIN: Final = 3
REFUSED: Final = 5
_A: Final = 1
_AAAA: Final = 28
_HEADER: Final = struct.Struct(">HHHHHH")


class DnsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of a name: addresses of both families and their lifetime, or a code, or nothing at all."""

    addresses: tuple[str, ...] = ()
    ttl_seconds: int = 300
    code: int = NOERROR
    silent: bool = False


class FakeDns(asyncio.DatagramProtocol):
    """Use as `async with`; `names` may change as the test goes, names not in it do not exist. UDP, one question each.

    `asked` holds the names in the order of arrival, one entry a question (A and AAAA are two).
    """

    def __init__(self, names: Mapping[str, DnsAnswer] | None = None) -> None:
        self.names = dict(names or {})
        self.asked: list[str] = []
        self.port = 0
        self._transport: asyncio.DatagramTransport | None = None

    @property
    def address(self) -> str:
        """As a setting names it."""
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=("127.0.0.1", self.port))
        self.port = self._transport.get_extra_info("sockname")[1]
        return self

    async def __aexit__(self, *_exc: object) -> None:
        if self._transport is not None:
            self._transport.close()

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Called by the loop with a question."""
        end = data.index(b"\0", _HEADER.size) + 5
        question = data[_HEADER.size : end]
        name = _name(question)
        self.asked.append(name)
        answer = self.names.get(name, DnsAnswer(code=NXDOMAIN))
        if answer.silent or self._transport is None:
            return
        wanted = int.from_bytes(question[-4:-2], "big")
        records = [record for ip in answer.addresses if (record := _record(ip, wanted, answer.ttl_seconds))]
        ident = int.from_bytes(data[:2], "big")
        header = _HEADER.pack(ident, 0x8180 | answer.code, 1, len(records), 0, 0)
        self._transport.sendto(header + question + b"".join(records), addr)


def _name(question: bytes) -> str:
    labels, at = list[str](), 0
    while question[at]:
        labels.append(question[at + 1 : at + 1 + question[at]].decode("ascii").lower())
        at += 1 + question[at]
    return ".".join(labels)


def _record(ip: str, wanted: int, ttl_seconds: int) -> bytes | None:
    kind, family = (_AAAA, socket.AF_INET6) if ":" in ip else (_A, socket.AF_INET)
    if kind != wanted:
        return None
    data = socket.inet_pton(family, ip)
    return b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, ttl_seconds, len(data)) + data
