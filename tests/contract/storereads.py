"""What tests of the URL store compare: a record's fields, and what a write that lost its guard leaves alone."""

from typing import Any

from limpet.urlstore import HostRow, UrlRow, UrlStore


def fields(record: UrlRow | HostRow) -> dict[str, Any]:
    """All of a record, by name."""
    return {name: getattr(record, name) for name in record.__struct_fields__}


async def snapshot(store: UrlStore) -> tuple[object, ...]:
    """What a guarded write that lost its guard must leave alone."""
    return await store.rows(), await store.all_outcomes(), sorted(map(repr, await store.queues())), await store.jobs()
