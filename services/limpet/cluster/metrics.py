"""The numbers of a role's process, for `/metrics`."""

from limpet.clock import Clock
from limpet.cluster.waiting import Waits
from limpet.obs.metrics import (
    ARGUMENTS_MAX,
    COMMANDS_MAX,
    READY,
    RECEIPTS,
    STATEMENTS,
    UNCLEAN,
    WAIT_AGE,
    WAITS,
    Sample,
    counted,
)
from limpet.receipts import Recorder
from limpet.urlstore.cassandra.session import Tally


def samples_of(waits: Waits, tally: Tally, recorder: Recorder | None, clock: Clock, *, ready: bool) -> list[Sample]:
    """What every role tells: readiness, what is waited for, statements and receipts."""
    since = [since_us for since_us, _ in waits.now().values()]
    age = (clock.wall_us() - min(since)) / 1e6 if since else 0.0
    samples = [Sample(READY, int(ready)), Sample(WAITS, len(since)), Sample(WAIT_AGE, age)]
    for name, count in sorted(tally.statements.items()):
        guarded = tally.conditional.get(name, 0)
        pairs = (("false", count - guarded), ("true", guarded))
        samples += [Sample(STATEMENTS, sent, (name, label)) for label, sent in pairs if sent]
    if recorder is not None:
        samples += counted(RECEIPTS, recorder.counts.items())
        samples += [
            Sample(UNCLEAN, recorder.unclean),
            Sample(COMMANDS_MAX, recorder.maxima.commands_a_pipeline),
            Sample(ARGUMENTS_MAX, recorder.maxima.arguments_a_command),
        ]
    return samples
