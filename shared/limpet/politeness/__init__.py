"""When a host may be asked. A library inside the crawl node; its durable state lives in host rows."""

from limpet.politeness.breaker import BREAKER, HOST_UNREACHABLE, Answer
from limpet.politeness.fileshares import FileShares
from limpet.politeness.governor import Governor
from limpet.politeness.retry_after import longest_wait_us, retry_after_us
from limpet.politeness.shares import LocalShares, Shares
from limpet.politeness.state import HostState, Permit
from limpet.politeness.unfinished import hold_unfinished, unfinished_wait_seconds

__all__ = [
    "BREAKER",
    "HOST_UNREACHABLE",
    "Answer",
    "FileShares",
    "Governor",
    "HostState",
    "LocalShares",
    "Permit",
    "Shares",
    "hold_unfinished",
    "longest_wait_us",
    "retry_after_us",
    "unfinished_wait_seconds",
]
