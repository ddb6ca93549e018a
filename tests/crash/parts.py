"""The real parts as rehearsals use them: nothing replaced, only the write-behind of marks taken away.

With one mark a write every mark is durable at once, which is the harshest case for "a mark always follows its row".
"""

from pathlib import Path

from limpet.embedded.parts import Parts
from limpet.runtime import Runner
from limpet.seen.sqlite import SqliteSeen


def eager_seen(path: Path, runner: Runner) -> SqliteSeen:
    """A seen shard that writes each mark at once."""
    return SqliteSeen(path, runner, batch=1)


REHEARSED = Parts(seen=eager_seen)
