"""A row as programs read it, the same in every listing."""

from typing import Any

from limpet.urlstore import UrlRow


def row_json(row: UrlRow) -> dict[str, Any]:
    """One row as a JSON object."""
    return {
        "url": row.url,
        "state": row.state.value,
        "reason": row.reason,
        "due_us": row.due_us,
        "depth": row.depth,
        "hops": row.hops,
        "kind": row.kind,
        "seed": row.seed,
        "failures": row.failures,
        "interruptions": row.interruptions,
        "latest_us": row.latest_us,
        "admitted_us": row.admitted_us,
        "fingerprint": row.fp.hex(),
    }
