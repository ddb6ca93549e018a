"""A worker process as its supervisor sees it."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from limpet.embedded.order import WorkerOrder, WorkerWord

WORKER_COMMAND: Final = (sys.executable, "-m", "limpet.embedded.worker")
_ALLOCATOR: Final = {"MALLOC_ARENA_MAX": "2"}
"""glibc keeps free memory apart for every thread that ever allocated: a worker has a handful, and one that works."""
_WORD_BYTES_MAX: Final = 65_536


class WorkerProcess:
    """One started worker. `word` is the sum of what it said: its incarnation and, at its end, why."""

    def __init__(self, slot: int, process: asyncio.subprocess.Process) -> None:
        self.slot = slot
        self.word = WorkerWord()
        self._process = process
        self._listening = asyncio.ensure_future(self._listen())

    @classmethod
    async def start(cls, slot: int, log: Path, command: Sequence[str] = WORKER_COMMAND) -> "WorkerProcess":
        """Start a worker that waits for its order. What it writes to stderr goes to the end of file `log`.

        SIGINT is blocked while it is born, and so stays blocked in it: Ctrl-C reaches every process of the terminal,
        and only the supervisor may act on it.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with log.open("ab") as stderr:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    str(os.getpid()),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=stderr,
                    limit=_WORD_BYTES_MAX,
                    env=_ALLOCATOR | os.environ,
                )
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        return cls(slot, process)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it has not been seen to end."""
        return self._process.returncode is None

    def give(self, order: WorkerOrder) -> None:
        """Send the order; a worker that died meanwhile is noticed by `wait`."""
        stdin = self._process.stdin
        assert stdin is not None  # asked for above
        stdin.write(msgspec.json.encode(order) + b"\n")

    async def wait(self) -> int:
        """Its exit code, negative for a signal, once it ended and everything it said was heard."""
        code = await self._process.wait()
        await self._listening
        return code

    def terminate(self) -> None:
        """Ask it to finish what is in flight and end."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """End it now."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def _listen(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None  # asked for above
        while True:
            try:
                line = await stdout.readline()
            except ValueError:  # a line above the limit is no word of ours
                continue
            if not line:
                return
            try:
                word = msgspec.json.decode(line, type=WorkerWord)
            except msgspec.MsgspecError:
                continue
            self.word = WorkerWord(
                incarnation=word.incarnation or self.word.incarnation,
                error=word.error or self.word.error,
                disk=word.disk or self.word.disk,
            )
