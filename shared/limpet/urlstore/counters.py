"""The counters a shard keeps in the same write as what they count.

Gauges go up and down; totals only up. A name ending in `.` takes a suffix: a state or a topic.
"""

from typing import Final

from limpet.model.lifecycle import State

STATE: Final = "state."  # gauge: rows in each state; clashing candidates count under state.review
ADMITTED: Final = "admitted"
CLASHES: Final = "clashes"
CLAIMS: Final = "claims"
COMPLETIONS: Final = "completions"
LATE_COMPLETIONS: Final = "late_completions"
INTERRUPTIONS: Final = "interruptions"
ADOPTED: Final = "adopted"
HANDED_BACK: Final = "handed_back"
REARMED: Final = "rearmed"
WAITED_OUT: Final = "waited_out"
CANCELLED: Final = "cancelled"  # rows taken out, as often as that happened
OUTCOMES: Final = "outcomes"
PAGES: Final = "pages"  # URLs with at least one fetched outcome that is a page (not a redirect)
BYTES: Final = "bytes"  # wire bytes of all outcomes
RECORDS: Final = "records"  # outcomes that have a record in a segment
OUTPUTS: Final = "outputs"
LINKS: Final = "links"  # links of accepted outputs
JOBS_OPEN: Final = "jobs_open"
JOBS_REVIEW: Final = "jobs_review"
REPAIRS_OPEN: Final = "repairs_open"
REJECTED: Final = "rejected"
NOTICES: Final = "notices"  # what was notified, before aggregation
PUBLISHED: Final = "published."  # messages appended to the outgoing log, per topic
COMMITTED: Final = "committed."  # messages this shard's consumers received and committed, per topic
TRIMMED: Final = "trimmed."  # messages that retention dropped, per topic

GAUGES: Final = frozenset({JOBS_OPEN, JOBS_REVIEW, REPAIRS_OPEN}) | {STATE + state.value for state in State}
TOTALS: Final = frozenset(
    {
        ADMITTED,
        CLASHES,
        CLAIMS,
        COMPLETIONS,
        LATE_COMPLETIONS,
        INTERRUPTIONS,
        ADOPTED,
        HANDED_BACK,
        REARMED,
        WAITED_OUT,
        CANCELLED,
        OUTCOMES,
        PAGES,
        BYTES,
        RECORDS,
        OUTPUTS,
        LINKS,
        REJECTED,
        NOTICES,
    }
)
PREFIXES: Final = frozenset({PUBLISHED, COMMITTED, TRIMMED})


def of_state(state: State) -> str:
    """The gauge of rows in `state`."""
    return STATE + state.value
