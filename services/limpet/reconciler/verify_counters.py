"""A shard's counters against what they count."""

from collections import Counter
from typing import Final

import msgspec

from limpet.model.lifecycle import State
from limpet.reconciler.kinds import VerifyKind as Kind
from limpet.reconciler.report import Collector
from limpet.reconciler.snapshot import Snapshot
from limpet.urlstore import counters
from limpet.urlstore.types import ParseOutput

STATE_CODES: Final = {
    0: State.DUE,
    1: State.LEASED,
    2: State.FETCHED,
    3: State.DENIED,
    4: State.GONE,
    5: State.FAILED,
    6: State.PARKED,
    7: State.REVIEW,
    8: State.CANCELLED,
}
"""As `limpet.schemas.sqlite` documents them; written again here, since a checker must not learn from what it checks."""

_OUTPUT: Final = msgspec.msgpack.Decoder(ParseOutput)
_TOTALS: Final = msgspec.json.Decoder(dict[str, int])


def recount(shard: Snapshot, outcomes: int, records: int, wire_bytes: int) -> dict[str, int]:
    """What the counters that can be recounted should say; counts of outcomes are the caller's."""
    clashes: int = shard.value("clashes") or 0
    actual = _states(shard)
    actual[counters.of_state(State.REVIEW)] += clashes
    actual[counters.CLASHES] = clashes
    actual[counters.OUTCOMES] = outcomes
    actual[counters.RECORDS] = records
    actual[counters.BYTES] = wire_bytes
    jobs: dict[str, int] = dict(shard.rows("job_states"))
    actual[counters.JOBS_OPEN] = jobs.get("open", 0)
    actual[counters.JOBS_REVIEW] = jobs.get("review", 0)
    actual[counters.REPAIRS_OPEN] = shard.value("repair_count")
    actual[counters.REJECTED] = shard.value("rejected")
    for (data,) in shard.rows("outputs"):
        actual[counters.OUTPUTS] += 1
        actual[counters.LINKS] += _OUTPUT.decode(data).links
    return dict(actual)


def _states(shard: Snapshot) -> Counter[str]:
    actual: Counter[str] = Counter({counters.of_state(state): 0 for state in State})
    for code, count, pages in shard.rows("states"):
        state = STATE_CODES.get(code)
        if state is not None:
            actual[counters.of_state(state)] = count
        actual[counters.ADMITTED] += count
        actual[counters.PAGES] += pages
    return actual


def check_counters(shard: Snapshot, actual: dict[str, int], subject: str, out: Collector) -> None:
    """Compare every counter that can be recounted, and what was published with what is in the log or was trimmed."""
    text = shard.value("counters")
    stored = _TOTALS.decode(text) if text else {}
    for name, count in sorted(actual.items()):
        if stored.get(name, 0) != count:
            out.find(Kind.COUNTER_DRIFT, f"{subject} {name}", f"says {stored.get(name, 0)}, counted {count}")
    kept: dict[str, int] = dict(shard.rows("log_counts"))
    topics = {name.removeprefix(counters.PUBLISHED) for name in stored if name.startswith(counters.PUBLISHED)}
    for topic in sorted(topics | kept.keys()):
        published, trimmed = stored.get(counters.PUBLISHED + topic, 0), stored.get(counters.TRIMMED + topic, 0)
        if published - trimmed != kept.get(topic, 0):
            detail = f"published {published}, trimmed {trimmed}, but the log holds {kept.get(topic, 0)}"
            out.find(Kind.COUNTER_DRIFT, f"{subject} {counters.PUBLISHED}{topic}", detail)
    out.checked["counters"] += len(actual)
