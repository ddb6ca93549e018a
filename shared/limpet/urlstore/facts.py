"""Facts for the bus, told again from what the authority knows."""

from limpet.model.events import DocumentFetched, encode
from limpet.model.outcome import Outcome
from limpet.urlstore.port import UrlStore
from limpet.urlstore.types import Job, UrlRow


def event_of(outcome: Outcome, row: UrlRow, crawl: str) -> DocumentFetched:
    """The fact that belongs to a fetched outcome with a record."""
    assert outcome.location is not None
    return DocumentFetched(
        crawl=crawl,
        fp=outcome.fp,
        url=outcome.url,
        fetched_us=outcome.fetched_us,
        status=outcome.status,
        location=outcome.location,
        payload_sha256=outcome.payload_sha256,
        depth=row.depth,
        hops=row.hops,
        seed=row.seed,
    )


async def nearer_jobs(store: UrlStore, fp: bytes, crawl: str, now_us: int) -> list[Job]:
    """What must be parsed again after `AdmitResult.NEARER`: documents whose links went out with a greater depth."""
    row = await store.row(fp)
    if row is None:
        return []
    farther = {output.fetched_us for output in await store.outputs(fp) if output.depth > row.depth}
    return [
        Job(
            fp=fp,
            fetched_us=outcome.fetched_us,
            event=encode(event_of(outcome, row, crawl)),
            attempt=1,
            due_us=now_us,
            reason="nearer_to_a_seed",
        )
        for outcome in await store.outcomes(fp)
        if outcome.fetched_us in farther and outcome.location is not None
    ]
