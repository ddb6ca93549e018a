"""The REST side of HDFS, for what the native client lacks: where blocks lie, cutting files, the growing block."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from limpet.segments.hdfs.cluster import Block, FileBlocks, HdfsFault, Room
from limpet.segments.hdfs.http import Answer, HttpClient, HttpFault

JSON_BYTES_MAX: Final = 4_194_304
_STATE: Final = "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"


class WebHdfs:
    """WebHDFS of NameNodes and DataNodes. `rpc` is what DataNodes are told the NameNode is called."""

    def __init__(self, namenodes: tuple[str, ...], *, rpc: str, user: str, seconds_max: float) -> None:
        if not namenodes:
            raise ValueError("at least one HTTP address of a NameNode is needed")
        self._namenodes = list(namenodes)
        self._rpc = rpc
        self._user = user
        self._http = HttpClient(seconds_max)

    async def blocks(self, path: str, offset: int, size_bytes: int) -> FileBlocks:
        """See `Hdfs.blocks`."""
        found = await self._namenode("GET", path, {"op": "GET_BLOCK_LOCATIONS", "offset": offset, "length": size_bytes})
        try:
            return parse_blocks(found["LocatedBlocks"])
        except (KeyError, TypeError, ValueError) as error:
            raise HdfsFault(f"the NameNode's answer about {path} cannot be read: {error!r}") from error

    async def truncate(self, path: str, size_bytes: int) -> None:
        """See `Hdfs.truncate`."""
        await self._namenode("POST", path, {"op": "TRUNCATE", "newlength": size_bytes})

    async def room(self) -> Room:
        """See `Hdfs.room`."""
        found = await self._first("GET", _STATE)
        try:
            state = msgspec.json.decode(found.body)["beans"][0]
            return Room(datanodes=int(state["NumLiveDataNodes"]), free_bytes=int(state["CapacityRemaining"]))
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise HdfsFault(f"the NameNode's state cannot be read: {error!r}") from error

    async def tail(self, path: str, offset: int, size_bytes: int, datanode: str, seconds_max: float) -> bytes:
        """See `Hdfs.tail`."""
        words = {"op": "OPEN", "offset": offset, "length": size_bytes, "namenoderpcaddress": self._rpc}
        target = self._target(path, words)
        try:
            answer = await self._http.ask(
                "GET", datanode, target, body_bytes_max=size_bytes + JSON_BYTES_MAX, seconds_max=seconds_max
            )
        except HttpFault as error:
            raise HdfsFault(f"{path} cannot be read: {error}") from error
        if answer.status == 200:
            return answer.body
        remote = _remote(answer)
        if answer.status == 404:
            raise FileNotFoundError(path)
        if "out of the range" in remote:  # the offset lies behind the end that this DataNode knows
            return b""
        raise HdfsFault(f"{path} cannot be read from {datanode}: {remote}")

    def close(self) -> None:
        """Let go of connections."""
        self._http.close()

    async def _namenode(self, method: str, path: str, words: Mapping[str, object]) -> Any:
        answer = await self._first(method, self._target(path, words))
        if answer.status == 404:
            raise FileNotFoundError(path)
        if answer.status != 200:
            raise HdfsFault(f"{words['op']} of {path} was refused: {_remote(answer)}")
        return msgspec.json.decode(answer.body)

    async def _first(self, method: str, target: str) -> Answer:
        """The answer of the first NameNode that is active; it is asked first from then on."""
        trouble = ""
        for address in list(self._namenodes):
            try:
                answer = await self._http.ask(method, address, target, body_bytes_max=JSON_BYTES_MAX)
            except HttpFault as error:
                trouble = str(error)
                continue
            if answer.status == 403 and "StandbyException" in _remote(answer):
                trouble = f"{address} is a standby"
                continue
            self._namenodes.remove(address)
            self._namenodes.insert(0, address)
            return answer
        raise HdfsFault(f"no NameNode answers: {trouble}")

    def _target(self, path: str, words: Mapping[str, object]) -> str:
        return f"/webhdfs/v1{quote(path)}?{urlencode({**words, 'user.name': self._user})}"


def parse_blocks(located: Mapping[str, Any]) -> FileBlocks:
    """`LocatedBlocks` of GET_BLOCK_LOCATIONS. A corrupt block counts no replicas. Raises KeyError, TypeError."""
    growing = bool(located["isUnderConstruction"])
    blocks = {block["startOffset"]: _block(block, complete=True) for block in located["locatedBlocks"]}
    last = located.get("lastLocatedBlock")
    if last is not None:
        blocks[last["startOffset"]] = _block(last, complete=not growing or bool(located["isLastBlockComplete"]))
    return FileBlocks(growing=growing, blocks=tuple(blocks[offset] for offset in sorted(blocks)))


def _block(located: Mapping[str, Any], *, complete: bool) -> Block:
    nodes = [] if located["isCorrupt"] else located["locations"]
    return Block(
        offset=int(located["startOffset"]),
        length=int(located["block"]["numBytes"]),
        complete=complete,
        replicas=tuple(f"{node['ipAddr']}:{node['infoPort']}" for node in nodes),
    )


def _remote(answer: Answer) -> str:
    """What the server says went wrong, on one line."""
    try:
        told = msgspec.json.decode(answer.body)["RemoteException"]
        text = f"{told['exception']}: {told['message']}"
    except (msgspec.DecodeError, KeyError, TypeError):
        text = f"status {answer.status}"
    return text.partition("\n")[0][:300]
