"""A process whose event loop has stopped turning ends itself, so that whoever started it starts it again.

What is watched for is a library that waits for ever with the interpreter's lock in its hands: then no code of ours runs
any more, no signal is handled, and no health page answers. So the watch is a thread of faulthandler's, which takes no
such lock. Leases see to it that others go on meanwhile; this is so that the process is not missed for ever.
"""

import faulthandler
from typing import Final

from limpet.clock import Clock

STILL_SECONDS_MAX: Final = 60.0
"""Longer than anything that a loop may stand still for: a full disk, a suspended machine, a burst of parsing."""
STDERR: Final = 2  # the descriptor: faulthandler writes without the interpreter's help
SIGNS: Final = 6
"""Signs of life in that time."""


async def turn(clock: Clock, seconds_max: float = STILL_SECONDS_MAX) -> None:
    """For ever: say that the loop turns. Without a word for `seconds_max` the process ends.

    It ends at once with code 1, and where each thread stood is on stderr. One that was stopped (SIGSTOP) for longer
    ends when it goes on.
    """
    try:
        while True:
            faulthandler.dump_traceback_later(seconds_max, exit=True, file=STDERR)
            await clock.sleep(seconds_max / SIGNS)
    finally:
        faulthandler.cancel_dump_traceback_later()
