"""The authority: rows, leases, outcomes, due index, host rows, jobs, repair. It is also the work queue."""

from limpet.urlstore.port import UrlStore
from limpet.urlstore.types import (
    DAMAGED_SEGMENT,
    AdmitResult,
    AuthorityRow,
    Candidate,
    Claim,
    Completion,
    HostRow,
    Job,
    Lane,
    Notice,
    ParseOutput,
    Queue,
    Reject,
    RepairItem,
    UrlRow,
)

__all__ = [
    "DAMAGED_SEGMENT",
    "AdmitResult",
    "AuthorityRow",
    "Candidate",
    "Claim",
    "Completion",
    "HostRow",
    "Job",
    "Lane",
    "Notice",
    "ParseOutput",
    "Queue",
    "Reject",
    "RepairItem",
    "UrlRow",
    "UrlStore",
]
