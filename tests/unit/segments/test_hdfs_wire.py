"""How answers of HDFS are read: its REST side over real sockets, and the driver's errors."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from limpet.segments.hdfs import HdfsFault, LeaseLost
from limpet.segments.hdfs.http import HttpClient, HttpFault
from limpet.segments.hdfs.native import bounded
from limpet.segments.hdfs.webhdfs import WebHdfs, parse_blocks

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class PanicException(BaseException):
    """As the Rust library raises it: no `Exception`, and of a class that cannot be imported."""


PanicException.__module__ = "pyo3_runtime"


class Script:
    """A server that gives one answer a request, in order; `requests` are what it was asked."""

    def __init__(self, *answers: bytes, close: bool = False) -> None:
        self.requests: list[str] = []
        self.connections = 0
        self._answers = list(answers)
        self._close = close

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self._answers:
                head = await reader.readuntil(b"\r\n\r\n")
                self.requests.append(head.decode().partition("\r\n")[0])
                writer.write(self._answers.pop(0))
                await writer.drain()
                if self._close:
                    break
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


async def served(script: Serve, use: Callable[[str], Awaitable[None]]) -> None:
    handlers: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.add(task)
        await script(reader, writer)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        await use(f"127.0.0.1:{port}")
        if handlers:
            await asyncio.wait(handlers, timeout=2)


def plain(body: bytes, status: int = 200) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


def test_bodies_in_every_framing() -> None:
    """By length, chunked with trailers, or until the end; a connection is used again where that is sound."""
    script = Script(
        plain(b"one"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\ntwo\r\n1\r\n!\r\n0\r\nTrailer: 1\r\n\r\n",
        plain(b""),
    )

    async def use(address: str) -> None:
        http = HttpClient(2.0)
        bodies = [(await http.ask("GET", address, "/", body_bytes_max=10)).body for _ in range(3)]
        assert bodies == [b"one", b"two!", b""]
        assert script.connections == 1
        http.close()

    asyncio.run(served(script, use))


def test_a_body_until_the_end() -> None:
    """A DataNode closes the connection behind its data."""

    async def use(address: str) -> None:
        http = HttpClient(2.0)
        assert (await http.ask("GET", address, "/", body_bytes_max=10)).body == b"abc"
        http.close()

    asyncio.run(served(Script(b"HTTP/1.1 200 OK\r\n\r\nabc", close=True), use))


def test_a_kept_connection_that_was_closed_is_replaced() -> None:
    """Servers close idle connections whenever they like."""
    script = Script(plain(b"1"), plain(b"2"), close=True)

    async def use(address: str) -> None:
        http = HttpClient(2.0)
        for body in (b"1", b"2"):
            assert (await http.ask("GET", address, "/", body_bytes_max=10)).body == body
        assert script.connections == 2
        http.close()

    asyncio.run(served(script, use))


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n12345678901",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n12345678\r\n8\r\n12345678\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n12345678901",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
        b"",
    ],
)
def test_answers_that_are_none(answer: bytes) -> None:
    """Whatever comes back, it is one error, and no more than the bound is kept."""

    async def use(address: str) -> None:
        http = HttpClient(2.0)
        with pytest.raises(HttpFault):
            await http.ask("GET", address, "/", body_bytes_max=10)
        http.close()

    asyncio.run(served(Script(answer, close=True), use))


def test_silence_has_an_end() -> None:
    """A frozen server accepts connections and says nothing."""

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def use(address: str) -> None:
        http = HttpClient(0.05)
        with pytest.raises(HttpFault, match="did not answer in time"):
            await http.ask("GET", address, "/", body_bytes_max=10)
        http.close()

    asyncio.run(served(silent, use))


def test_the_active_namenode_is_found_and_kept() -> None:
    """A standby and a dead one are passed over; the active one is asked first from then on."""
    refusal = {"RemoteException": {"exception": "StandbyException", "message": "not here"}}
    standby = Script(plain(msgspec.json.encode(refusal), 403))
    state = msgspec.json.encode({"beans": [{"NumLiveDataNodes": 3, "CapacityRemaining": 7}]})
    active = Script(plain(state), plain(state))

    async def use(first: str) -> None:
        async def both(second: str) -> None:
            web = WebHdfs((first, "127.0.0.1:1", second), rpc="x:1", user="me", seconds_max=2.0)
            for _ in range(2):
                room = await web.room()
                assert (room.datanodes, room.free_bytes) == (3, 7)
            web.close()

        await served(active, both)

    asyncio.run(served(standby, use))
    assert (len(standby.requests), len(active.requests)) == (1, 2)


def test_refusals_of_the_namenode_are_told() -> None:
    """No such file is FileNotFoundError, all else says what the server said."""
    safe = {"RemoteException": {"exception": "SafeModeException", "message": "still safe\nat org.apache"}}
    script = Script(plain(b"{}", 404), plain(msgspec.json.encode(safe), 403), plain(b"<html>", 500), plain(b"[]"))

    async def use(address: str) -> None:
        web = WebHdfs((address,), rpc="x:1", user="a b", seconds_max=2.0)
        with pytest.raises(FileNotFoundError):
            await web.truncate("/a b", 5)
        with pytest.raises(HdfsFault, match=r"SafeModeException: still safe$"):
            await web.truncate("/f", 5)
        with pytest.raises(HdfsFault, match="status 500"):
            await web.truncate("/f", 5)
        with pytest.raises(HdfsFault, match="cannot be read"):
            await web.blocks("/f", 0, 1)
        web.close()

    asyncio.run(served(script, use))
    assert script.requests[0] == "POST /webhdfs/v1/a%20b?op=TRUNCATE&newlength=5&user.name=a+b HTTP/1.1"


def located(offset: int, length: int, nodes: int, *, corrupt: bool = False) -> dict[str, object]:
    locations = [{"ipAddr": "10.0.0.1", "infoPort": number} for number in range(nodes)]
    block = {"numBytes": length}
    return {"startOffset": offset, "block": block, "isCorrupt": corrupt, "locations": locations}


def test_blocks_of_a_growing_file() -> None:
    """The growing block comes apart from the others, and is named once; corrupt replicas do not count."""
    found = parse_blocks(
        {
            "isUnderConstruction": True,
            "isLastBlockComplete": False,
            "locatedBlocks": [located(0, 10, 3), located(10, 10, 2, corrupt=True), located(20, 5, 1)],
            "lastLocatedBlock": located(20, 5, 1),
        }
    )
    assert [(block.offset, block.complete, len(block.replicas)) for block in found.blocks] == [
        (0, True, 3),
        (10, True, 0),
        (20, False, 1),
    ]
    assert found.growing
    assert found.size_bytes == 25
    assert [block.offset for block in found.within(10, 11)] == [10, 20]
    empty = parse_blocks({"isUnderConstruction": False, "locatedBlocks": [], "lastLocatedBlock": None})
    assert (empty.size_bytes, empty.growing) == (0, False)


def test_panics_and_hangs_of_the_driver_are_faults() -> None:
    """A panic is no `Exception` and must not pass; a call that never ends does; a lost lease is told apart."""

    async def panic() -> None:
        raise PanicException("Cannot read past end of the file")

    async def hang() -> None:
        await asyncio.Event().wait()

    async def refuse() -> None:
        raise RuntimeError(
            'RPCError("org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException", "No lease\\n\\tat")'
        )

    async def missing() -> None:
        raise FileNotFoundError("/f")

    async def interrupt() -> None:
        raise asyncio.CancelledError

    async def main() -> None:
        with pytest.raises(HdfsFault, match="read /f: Cannot read past"):
            await bounded("read /f", panic(), 1.0)
        with pytest.raises(HdfsFault, match="not within"):
            await bounded("sync /f", hang(), 0.01)
        with pytest.raises(LeaseLost, match=r"No lease$"):
            await bounded("sync /f", refuse(), 1.0)
        with pytest.raises(FileNotFoundError):
            await bounded("open /f", missing(), 1.0)
        with pytest.raises(asyncio.CancelledError):
            await bounded("open /f", interrupt(), 1.0)

    asyncio.run(main())
