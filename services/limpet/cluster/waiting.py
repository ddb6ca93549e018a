"""Waiting for servers, and saying so: an outage of ours is waited out, it ends no process and hammers nobody."""

import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar, cast

from limpet.clock import Clock
from limpet.model.errors import CannotGoOn, LimpetError, UsageError
from limpet.obs import log_event
from limpet.runtime import Random

T = TypeVar("T")

PAUSE_SECONDS_FIRST: Final = 0.25
PAUSE_SECONDS_MAX: Final = 10.0
SAY_AGAIN_SECONDS: Final = 60.0
REASON_CHARS_MAX: Final = 300
WAITS_MAX: Final = 200
_LOG = logging.getLogger("limpet.cluster")


class Waits:
    """What this process waits for now: name -> (since when in wall time, why). Bounded; `/ready` shows it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: dict[str, tuple[int, str]] = {}
        self._said: dict[str, float] = {}

    def begin(self, name: str, error: BaseException) -> None:
        """`name` did not work, because of `error`. Logged when it begins, and once a minute while it lasts."""
        why = " ".join(str(error).split())[:REASON_CHARS_MAX] or type(error).__name__
        now = self._clock.monotonic()
        since = self._since[name][0] if name in self._since else self._clock.wall_us()
        if name in self._since or len(self._since) < WAITS_MAX:
            self._since[name] = (since, why)
        if now - self._said.get(name, -SAY_AGAIN_SECONDS) >= SAY_AGAIN_SECONDS:
            self._said[name] = now
            log_event(_LOG, logging.WARNING, "waiting", what=name, reason=why)

    def end(self, name: str) -> None:
        """`name` works again."""
        if self._since.pop(name, None) is not None:
            self._said.pop(name, None)
            log_event(_LOG, logging.INFO, "goes on", what=name)

    def give_up(self, name: str) -> None:
        """Nobody waits for `name` any more, whether it works or not."""
        self._since.pop(name, None)

    def now(self) -> dict[str, tuple[int, str]]:
        """What is waited for."""
        return dict(self._since)


class Patience:
    """Tries a step until it holds, with growing pauses and jitter. `UsageError` and `CannotGoOn` are raised on."""

    def __init__(self, clock: Clock, random: Random, waits: Waits) -> None:
        self._clock = clock
        self._random = random
        self.waits = waits

    async def insist(self, name: str, step: Callable[[], Awaitable[T]]) -> T:
        """The result of `step`, which must be safe to repeat; whoever no longer wants it cancels."""
        pause = PAUSE_SECONDS_FIRST
        failed = False
        try:
            while True:
                try:
                    found = await step()
                except (CannotGoOn, UsageError):
                    raise
                except LimpetError as error:
                    failed = True
                    self.waits.begin(name, error)
                else:
                    if failed:
                        self.waits.end(name)
                    return found
                await self.pause(pause)
                pause = min(2 * pause, PAUSE_SECONDS_MAX)
        except BaseException:
            if failed:
                self.waits.give_up(name)
            raise

    async def pause(self, seconds: float) -> None:
        """Sleep for half of `seconds` to all of it: those who wait for one server do not come back in step."""
        await self._clock.sleep(seconds * (0.5 + self._random.fraction() / 2))


class PatientCalls:
    """Stands in front of `target`: each coroutine method is tried until it holds; everything else goes through.

    For ports all of whose verbs may be repeated, such as `UrlStore` ("every write is idempotent or guarded"): made by
    attribute, since forty methods that say the same thing would hide it.
    """

    def __init__(self, target: object, name: str, patience: Patience, verbs: frozenset[str]) -> None:
        self._target = target
        self._name = name
        self._patience = patience
        self._verbs = verbs

    def __getattr__(self, verb: str) -> Any:
        """The verb, patient if it is one of `verbs`."""
        found = getattr(self._target, verb)
        if verb not in self._verbs:
            return found
        call = cast("Callable[..., Coroutine[Any, Any, Any]]", found)

        async def patient(*args: Any, **kwargs: Any) -> Any:
            return await self._patience.insist(self._name, lambda: call(*args, **kwargs))

        self.__dict__[verb] = patient  # made once: `__getattr__` is asked for absent attributes only
        return patient
