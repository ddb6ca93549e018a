"""One connection to one server, one pipeline at a time, every reply accounted for.

redis-py's own pipelines are not used: they repeat themselves behind one's back after a lost reply, and after a
disconnect they tell nothing of the replies that had come. Each pipeline ends with an ECHO of its number, so that a
reply lost on the way can never make another one count for the wrong command.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import redis
from redis import exceptions
from redis.asyncio.connection import Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from limpet.receipts import CommandFailure, Transport, error_code
from limpet.seen.redis.address import Address

CLIENT: Final = f"redis-py {redis.__version__}"
Command = tuple[bytes, ...]


@dataclass
class Exchange:
    """What came back: `replies[i]` answers command i; a failed one holds its `CommandFailure`.

    Unless `transport` is complete, replies are counted and not to be believed.
    """

    commands: Sequence[Command]
    transport: Transport = Transport.COMPLETE
    sent: bool = False
    replies: list[Any] = field(default_factory=list)
    why: str = ""

    @property
    def failures(self) -> list[CommandFailure]:
        """Commands that failed by themselves."""
        return [reply for reply in self.replies if isinstance(reply, CommandFailure)]


class Link:
    """Connects when it is first used. A connection that has failed, or that a caller left, is never used again."""

    def __init__(self, address: Address, *, seconds_max: float) -> None:
        self.address = address
        self._seconds_max = seconds_max
        self._connection: Connection | None = None
        self._turn = 0

    @property
    def connected(self) -> bool:
        """Whether a connection is kept open."""
        return self._connection is not None

    async def exchange(self, commands: Sequence[Command]) -> Exchange:
        """Send all, read all; never raises for what the server or the network does, and ends in bounded time."""
        done = Exchange(commands)
        try:
            async with asyncio.timeout(self._seconds_max):
                await self._run(done)
        except (TimeoutError, exceptions.TimeoutError):
            done.transport, done.why = Transport.TIMED_OUT, f"no answer within {self._seconds_max:g} s"
        except (exceptions.InvalidResponse, ValueError) as error:
            done.transport, done.why = Transport.GARBLED, type(error).__name__
        except (exceptions.RedisError, OSError) as error:
            done.transport = Transport.DISCONNECTED if done.sent else Transport.UNREACHABLE
            done.why = _code(error) or ("the connection was lost" if done.sent else "cannot connect")
        except BaseException:  # whoever asked is gone, and the replies are still to come
            await self.close()
            raise
        if done.transport is not Transport.COMPLETE:
            await self.close()
        return done

    async def close(self) -> None:
        """Drop the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)

    async def _run(self, done: Exchange) -> None:
        if self._connection is None:
            self._connection = self._new()
            await self._connection.connect()  # type: ignore[no-untyped-call]  # as redis-py left it
        connection = self._connection
        self._turn += 1
        echo = b"%d" % self._turn
        packed = connection.pack_commands([*done.commands, (b"ECHO", echo)])
        done.sent = True
        await connection.send_packed_command(packed, check_health=False)
        for index, command in enumerate(done.commands):
            done.replies.append(await _reply(connection, index, command))
        last = await _reply(connection, len(done.commands), (b"ECHO",))
        if last != echo and not isinstance(last, CommandFailure):
            raise exceptions.InvalidResponse("the replies are not those of the commands")

    def _new(self) -> Connection:
        """No retries, no timers of its own: `exchange` bounds all of it."""
        kind = SSLConnection if self.address.tls else Connection
        return kind(
            host=self.address.host,
            port=self.address.port,
            username=self.address.username,
            password=self.address.password,
            socket_timeout=None,
            socket_connect_timeout=None,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
        )


async def _reply(connection: Connection, index: int, command: Command) -> Any:
    try:
        return await connection.read_response(disconnect_on_error=False)
    except exceptions.RedisError as error:
        code = _code(error)
        if code is None:
            raise
        return CommandFailure(index=index, command=command[0].decode(), code=code)


def _code(error: Exception) -> str | None:
    """The code of an error that the server answered with, which redis-py may have cut off the text.

    None when the server did not answer. Refusals to serve come as if the connection were lost; they carry a code too.
    """
    status = getattr(error, "status_code", None)
    if status:
        return error_code(status)
    return error_code(str(error)) if isinstance(error, exceptions.ResponseError) else None
