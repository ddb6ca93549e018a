"""The origin as a child process, for tests and drivers."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from origin.events import Event, read_events
from origin.web import Option, Web
from origin.webs import make_web

_STOP_SECONDS = 10.0


class OriginProcess:
    """Starts an origin on entry, stops it on exit.

    The child leads a session of its own, so that a crawler's whole process group can be killed without it, and
    goes when its standard input closes, so that it never outlives the process that started it. `port` 0 picks a
    free port; on a restart with the log kept, give the former port.
    """

    def __init__(
        self,
        web: str,
        *,
        log_path: Path,
        seed: int = 7,
        port: int = 0,
        date_skew_seconds: float = 0.0,
        **options: Option,
    ) -> None:
        self.log_path = log_path
        self.port = port
        self.seeds: tuple[str, ...] = ()
        self.pid = 0
        self._web_name = web
        self._seed = seed
        self._options = options
        self._date_skew_seconds = date_skew_seconds
        self._child: subprocess.Popen[str] | None = None

    @property
    def web(self) -> Web:
        """The same web built in this process, to ask for what is expected of it."""
        return make_web(self._web_name, seed=self._seed, port=self.port, **self._options)

    def __enter__(self) -> Self:
        self._child = subprocess.Popen(
            self._command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)},
        )
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            self._close()
            raise RuntimeError(f"the origin did not start: {' '.join(self._command())}")
        ready = json.loads(line)
        self.port, self.seeds, self.pid = ready["port"], tuple(ready["seeds"]), ready["pid"]
        return self

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", "origin", "serve", "--until-stdin-closes", "--web", self._web_name]
        command += ["--seed", str(self._seed), "--port", str(self.port), "--log", str(self.log_path)]
        command += ["--date-skew", str(self._date_skew_seconds)]
        for name, value in self._options.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        return command

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        except RuntimeError:
            if error is None:
                raise

    def stop(self) -> None:
        """End it in good order; the log is complete afterwards. Stopping twice is allowed.

        RuntimeError if the origin had a fault of its own, which it has told on standard error.
        """
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(signal.SIGTERM)
        if self._close():
            raise RuntimeError("the origin failed; its log is no evidence")

    def _close(self) -> int:
        """The exit code, 0 if it was not running."""
        child, self._child = self._child, None
        if child is None:
            return 0
        for pipe in (child.stdin, child.stdout):
            assert pipe is not None
            pipe.close()
        try:
            return child.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            return child.wait()

    def events(self) -> list[Event]:
        """What the log holds by now; all of it once the origin has stopped."""
        return read_events(self.log_path)
