"""The parser's side of a shard: outputs accepted once, and jobs for what needs another attempt."""

from collections.abc import Sequence
from typing import Final

import msgspec

from limpet.model.outcome import Outcome
from limpet.runtime.randomness import Random
from limpet.runtime.sqlitetx import Reader, Tx
from limpet.urlstore import counters
from limpet.urlstore.sqlite import codes
from limpet.urlstore.sqlite.work import TOKEN_BYTES
from limpet.urlstore.types import Job, ParseOutput

SCAN_ROWS: Final = 1000
_GAUGES: Final = {"open": counters.JOBS_OPEN, "review": counters.JOBS_REVIEW}


def accept_outputs(tx: Tx, outputs: Sequence[ParseOutput], job: Job | None) -> list[bool]:
    """Insert each output if absent; the job ends in the same transaction, and its token decides."""
    if job is not None:
        stored = _job(tx, job)
        if stored is None or not job.token or stored.token != job.token:
            return [False] * len(outputs)
        if any(_is_nearer(tx, output) for output in outputs):
            tx.run("job_put", codes.job_values(msgspec.structs.replace(stored, token=b"", lease_us=0)))
            return [False] * len(outputs)
        tx.run("job_delete", (job.fp, job.fetched_us))
        tx.count(_GAUGES[stored.state], -1)
    return [_accept(tx, output) for output in outputs]


def _accept(tx: Tx, output: ParseOutput) -> bool:
    key = (output.fp, output.fetched_us, output.parser_version)
    if _is_nearer(tx, output):
        return False
    if tx.run("output_insert", (*key, codes.encode(output))) <= 0:
        return _replace(tx, key, output)
    tx.count(counters.OUTPUTS)
    tx.count(counters.LINKS, output.links)
    return True


def _is_nearer(tx: Tx, output: ParseOutput) -> bool:
    """Whether the row came nearer to a seed while its document was parsed."""
    if not output.depth:
        return False
    known = tx.one("url_identity", (output.fp,))
    return known is not None and known[2] < output.depth


def _replace(tx: Tx, key: tuple[bytes, int, int], output: ParseOutput) -> bool:
    stored = tx.one("output_get", key)
    if stored is None or codes.output(stored[0]).depth <= output.depth:
        return False
    tx.run("output_replace", (codes.encode(output), *key))
    return True


def put_job(tx: Tx, job: Job) -> None:
    """Store a job free to be claimed, if it may replace what is stored."""
    if job.state not in _GAUGES:
        raise ValueError(f"a job is open or in review, not {job.state!r}")
    stored = _job(tx, job)
    if job.token:
        allowed = stored is not None and stored.token == job.token
    else:
        allowed = stored is None or stored.attempt < job.attempt
    if not allowed:
        return
    tx.run("job_put", codes.job_values(msgspec.structs.replace(job, token=b"", lease_us=0)))
    if stored is not None:
        tx.count(_GAUGES[stored.state], -1)
    tx.count(_GAUGES[job.state])


def rearm_jobs(tx: Tx, now_us: int) -> int:
    """Jobs in review get all their later attempts again."""
    found = [job for job in map(codes.job, tx.all("jobs")) if job.state == "review"]
    for job in found:
        fresh = msgspec.structs.replace(job, state="open", attempt=2, due_us=now_us, token=b"", lease_us=0)
        tx.run("job_put", codes.job_values(fresh))
    tx.count(counters.JOBS_REVIEW, -len(found))
    tx.count(counters.JOBS_OPEN, len(found))
    return len(found)


def claim_jobs(tx: Tx, random: Random, limit: int, now_us: int, lease_us: int) -> list[Job]:
    """Lease what is eligible. A job whose holder let the lease run out has used an attempt up."""
    claimed = []
    for row in tx.all("jobs_eligible", (now_us, now_us, limit)):
        found = codes.job(row)
        attempt = found.attempt + 1 if found.token else found.attempt
        job = msgspec.structs.replace(found, token=random.token(TOKEN_BYTES), lease_us=lease_us, attempt=attempt)
        tx.run("job_put", codes.job_values(job))
        claimed.append(job)
    return claimed


def _job(reader: Reader, job: Job) -> Job | None:
    row = reader.one("job_get", (job.fp, job.fetched_us))
    return None if row is None else codes.job(row)


class Unparsed:
    """Finds fetched outcomes that nobody parsed, without reading again what is known to be parsed.

    An output never goes away, so everything before the first unparsed outcome of a parser version stays parsed.
    """

    def __init__(self) -> None:
        self._parsed_to: dict[int, int] = {}

    def find(self, reader: Reader, parser_version: int, before_us: int, limit: int) -> list[Outcome]:
        """Up to `limit` outcomes completed before `before_us`, in the order of completion."""
        begin = self._parsed_to.get(parser_version, 0)
        last: int = reader.value("outcome_last") or 0
        found: list[Outcome] = []
        first = after = 0
        while len(found) < limit:
            rows = reader.all("unparsed", (after or begin, parser_version, SCAN_ROWS))
            first = first or (rows[0][0] if rows else last + 1)
            found += [codes.outcome(data) for _, completed_us, data in rows if completed_us < before_us]
            if len(rows) < SCAN_ROWS or rows[-1][1] >= before_us:
                break
            after = rows[-1][0]
        if first:
            self._parsed_to[parser_version] = first - 1
        return found[:limit]
