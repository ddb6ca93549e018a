"""How often Python looks for reference cycles.

The default is after every 700 new objects that survive. A page of fifty links makes hundreds of short-lived objects
and next to no cycles (those of exceptions and their frames), so most of that looking is in vain.
"""

import gc
from typing import Final

COLLECT_EVERY: Final = 50_000
"""Net new objects between two looks; at about 100 bytes each, a few megabytes may wait to be found."""
GENERATIONS: Final = (20, 50)


def collect_rarely() -> None:
    """Set it for this process, once its code is loaded: what start-up made stays for good and is looked at no more."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_EVERY, *GENERATIONS)
