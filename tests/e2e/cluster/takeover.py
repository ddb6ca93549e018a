"""How long the shards of a crawl node that was killed stood alone, by the logs of all crawl nodes."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

LINE: Final = re.compile(r"^(\S+Z) INFO limpet\.crawlnode shard (taken|given back) shard=(\d+) ", re.MULTILINE)


def takeover_seconds(dead: str, logs: Sequence[str], killed_us: int) -> float | None:
    """From its death until the last of its shards was taken; None if it had none. `dead`: its own log, also in `logs`.

    A shard that nobody took any more (the crawl was over first) counts for nothing.
    """
    held: set[int] = set()
    for _, taken, shard in told(dead):
        (held.add if taken else held.discard)(shard)
    after = [(at_us, shard) for log in logs for at_us, taken, shard in told(log) if taken and at_us > killed_us]
    first = {shard: min((at_us for at_us, one in after if one == shard), default=0) for shard in held}
    taken_us = max(first.values(), default=0)
    return round((taken_us - killed_us) / 1e6, 1) if taken_us else None


def told(log: str) -> Iterator[tuple[int, bool, int]]:
    """(wall microsecond, taken or given back, shard)."""
    for at, what, shard in LINE.findall(log):
        yield round(datetime.fromisoformat(at).timestamp() * 1e6), what == "taken", int(shard)
