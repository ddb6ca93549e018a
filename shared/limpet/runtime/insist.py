"""A step of ours that has to hold: an outage of ours stops work, and never becomes load on somebody else."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from limpet.clock import Clock
from limpet.model.errors import CannotGoOn, LimpetError

T = TypeVar("T")

RETRY_SECONDS: Final = 0.5


async def insist(
    step: Callable[[], Awaitable[T]], clock: Clock, meanwhile: Callable[[], Awaitable[object]] | None = None
) -> T:
    """The result of `step`, tried until it holds; `meanwhile` runs between two tries.

    Only `CannotGoOn` ends it: another try would not help. The step must be idempotent.
    """
    while True:
        try:
            return await step()
        except CannotGoOn:
            raise
        except LimpetError:
            await clock.sleep(RETRY_SECONDS)
            if meanwhile is not None:
                await meanwhile()
