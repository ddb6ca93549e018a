"""The authority: rows, leases, outcomes, due index, host rows, jobs, repair. It is also the work queue."""

from limpet.urlstore.port import EVERYTHING, UrlStore
from limpet.urlstore.types import (
    DAMAGED_SEGMENT,
    ROBOTS_FETCHES_KEPT_US,
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
    RobotsFetch,
    UrlRow,
)

__all__ = [
    "DAMAGED_SEGMENT",
    "EVERYTHING",
    "ROBOTS_FETCHES_KEPT_US",
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
    "RobotsFetch",
    "UrlRow",
    "UrlStore",
]
