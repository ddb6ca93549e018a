"""Running an origin until it is told to stop."""

import asyncio
import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from time import monotonic_ns, time_ns
from typing import Any

from origin.events import Started, Stopped
from origin.log import Log
from origin.server import Connection, Origin
from origin.web import Option, Web
from origin.webs import make_web

_BACKLOG = 4096


def listen(port: int) -> socket.socket:
    """A socket on all of 127/8: there is no narrower way to serve a thousand loopback hosts with one socket.

    Connections to other addresses are dropped when made (`Connection.connection_made`).
    """
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("0.0.0.0", port))  # noqa: S104 (see above)
    listener.listen(_BACKLOG)
    return listener


def serve(
    name: str,
    *,
    seed: int,
    port: int,
    log_path: Path | None,
    options: Mapping[str, Option],
    date_skew_seconds: float = 0.0,
    until_stdin_closes: bool = False,
) -> None:
    """Serve a web; say on standard output when ready; return after SIGTERM, SIGINT or the end of standard input.

    RuntimeError after a fault of the origin's own: a witness that stumbled must not be believed.
    """
    with listen(port) as listener:
        web = make_web(name, seed=seed, port=listener.getsockname()[1], **options)
        web.warm()
        gc.collect()
        gc.freeze()
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_serve(web, listener, log_path, options, date_skew_seconds, until_stdin_closes))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    if find_spec("uvloop") is None:
        return asyncio.new_event_loop
    import uvloop  # noqa: PLC0415 (optional: the origin also runs on the standard library alone)

    return uvloop.new_event_loop


async def _serve(
    web: Web,
    listener: socket.socket,
    log_path: Path | None,
    options: Mapping[str, Option],
    date_skew_seconds: float,
    until_stdin_closes: bool,
) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    faults: list[dict[str, Any]] = []

    def note_fault(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        faults.append(context)
        stop.set()

    loop.set_exception_handler(note_fault)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if until_stdin_closes:
        loop.add_reader(sys.stdin.fileno(), _watch_stdin, stop)
    log = Log(log_path, loop)
    origin = Origin(web, log, loop, date_skew_seconds=date_skew_seconds)
    server = await loop.create_server(lambda: Connection(origin), sock=listener, backlog=_BACKLOG)
    log.event(Started(monotonic_ns(), time_ns(), web.name, web.seed, web.port, dict(options)))
    sys.stdout.write(json.dumps({"port": web.port, "seeds": web.seeds(), "pid": os.getpid()}) + "\n")
    sys.stdout.flush()
    await stop.wait()
    server.close()
    log.event(Stopped(monotonic_ns(), time_ns()))
    log.close()
    if faults:
        raise RuntimeError(f"the origin itself is at fault: {faults[0]}") from faults[0].get("exception")


def _watch_stdin(stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        stop.set()
