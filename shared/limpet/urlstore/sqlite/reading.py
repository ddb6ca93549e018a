"""What can be read from a shard's file, by its owner or by anybody else."""

from collections.abc import Callable, Iterator
from typing import Final, Protocol, TypeVar

from limpet.model.lifecycle import State
from limpet.model.outcome import Outcome
from limpet.runtime.sqlitetx import Reader
from limpet.segments.port import Location
from limpet.urlstore.sqlite import codes
from limpet.urlstore.types import (
    DAMAGED_SEGMENT,
    AuthorityRow,
    HostRow,
    ParseOutput,
    Reject,
    RepairItem,
    RobotsFetch,
    UrlRow,
)

T = TypeVar("T")

OUTCOMES_A_BATCH: Final = 500
OUTPUTS_A_PAGE: Final = 1_000
OLDER_RUN_MAX: Final = 2_000
"""Outcomes of older segments in a row after which none of a younger one is expected: two may overlap at a roll."""
UNRECORDED_MAX: Final = 20_000
"""Outcomes without a record, such as network failures, that are passed over on the way."""

_SEQ_MAX: Final = 2**62


class Readable(Protocol):
    """A shard's file, one's own or another's."""

    def read(self, op: Callable[[Reader], T]) -> T:
        """`op` over everything that is committed."""
        ...


def seeds(reader: Reader) -> list[str]:
    """Seeds of the shard."""
    return [url for (url,) in reader.all("seeds")]


def damages(reader: Reader) -> list[str]:
    """Segments in which damage was found, and where."""
    return [reason for (reason,) in reader.all("notices_kept", (DAMAGED_SEGMENT,))]


def host(reader: Reader, host: str) -> HostRow | None:
    """One host."""
    row = reader.one("host_get", (host,))
    return None if row is None else codes.host_row(row)


def hosts(reader: Reader) -> list[HostRow]:
    """Every host."""
    return [codes.host_row(row) for row in reader.all("hosts")]


def requests(reader: Reader, day: int) -> int:
    """Requests of one UTC day."""
    return reader.value("day_get", (day,)) or 0


def robots_fetches(reader: Reader) -> list[RobotsFetch]:
    """Requests for robots.txt, by fetch time."""
    return [codes.robots_fetch(data) for (data,) in reader.all("robots_fetches")]


def authority(reader: Reader, authority: str) -> AuthorityRow | None:
    """One authority."""
    row = reader.one("authority_get", (authority,))
    return None if row is None else codes.authority_row(row)


def leased_hosts(reader: Reader) -> list[str]:
    """Hosts with an unfinished lease."""
    return [host for (host,) in reader.all("leased_hosts")]


def leased_authorities(reader: Reader) -> list[AuthorityRow]:
    """Authorities with an unfinished lease."""
    return [codes.authority_row(row) for row in reader.all("leased_authorities")]


def row(reader: Reader, fp: bytes) -> UrlRow | None:
    """One row."""
    found = reader.one("row_by_fp", (fp,))
    return None if found is None else codes.url_row(found)


def rows(reader: Reader, state: State | None) -> list[UrlRow]:
    """Rows of the shard in the order of admission, then clashing candidates."""
    query, params = ("rows_after", (0, -1)) if state is None else ("rows_of_state", (codes.CODES[state],))
    found = reader.all(query, params)
    clashes = clashing(reader) if state in {None, State.REVIEW} else []
    return [codes.url_row(row) for row in found] + clashes


def clashing(reader: Reader) -> list[UrlRow]:
    """Candidates in review because their fingerprint is taken."""
    return [codes.clash_row(data, admitted_us) for data, admitted_us in reader.all("clashes")]


def outcomes(reader: Reader, fp: bytes) -> list[Outcome]:
    """Outcomes of one URL, oldest first."""
    return [codes.outcome(data) for (data,) in reader.all("outcomes_of_url", (fp,))]


def outcomes_after(reader: Reader, seq: int, limit: int) -> list[Outcome]:
    """Outcomes completed after number `seq`, in the order of completion; `limit` -1 = all."""
    return [codes.outcome(data) for _, data in reader.all("outcomes_after", (seq, limit))]


def recorded(reader: Reader, segment: str, offset: int) -> list[Location]:
    """Records of `segment` from `offset` on that outcomes name. Reads backwards, and stops well before the segment."""
    found: list[Location] = []
    older, unrecorded, seq = 0, 0, _SEQ_MAX
    while (
        older < OLDER_RUN_MAX
        and unrecorded < UNRECORDED_MAX
        and (batch := reader.all("outcomes_before", (seq, OUTCOMES_A_BATCH)))
    ):
        seq = batch[-1][0]
        for _, data in batch:
            location = codes.outcome(data).location
            if location is None:
                unrecorded += 1
                continue
            older = 0 if location.segment >= segment else older + 1
            if location.segment == segment and location.offset >= offset:
                found.append(location)
    return sorted(found)


def rejects(reader: Reader) -> list[Reject]:
    """Counts per host and rule; one record a sample, the count on the first."""
    found = []
    for host, rule, count, data in reader.all("rejects"):
        for place, sample in enumerate(codes.samples(data) or [""]):
            found.append(Reject(host=host, rule=rule, count=0 if place else count, sample=sample))
    return found


def output(reader: Reader, fp: bytes, fetched_us: int, parser_version: int) -> ParseOutput | None:
    """One accepted output."""
    data = reader.value("output_get", (fp, fetched_us, parser_version))
    return None if data is None else codes.output(data)


def all_outputs(file: Readable) -> Iterator[list[ParseOutput]]:
    """Every accepted output, a page at a time."""
    after: tuple[bytes, int, int] = (b"", 0, 0)
    while rows := file.read(lambda reader: reader.all("outputs_after", (*after, OUTPUTS_A_PAGE))):  # noqa: B023 - at once
        page = [codes.output(data) for (data,) in rows]
        yield page
        after = (page[-1].fp, page[-1].fetched_us, page[-1].parser_version)


def outputs(reader: Reader, fp: bytes) -> list[ParseOutput]:
    """Accepted outputs of one URL."""
    return [codes.output(data) for (data,) in reader.all("outputs_of", (fp,))]


def repairs(reader: Reader) -> list[RepairItem]:
    """Open repair items, oldest first."""
    return [
        RepairItem(kind=kind, subject=subject, detail=detail, created_us=created_us)
        for kind, subject, detail, created_us in reader.all("repairs")
    ]
