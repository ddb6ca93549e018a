"""When a host may be asked. A library inside the crawl node; its durable state lives in host rows."""

from limpet.politeness.governor import Governor, HostState, Permit, unfinished_wait_seconds
from limpet.politeness.retry_after import retry_after_us

__all__ = ["Governor", "HostState", "Permit", "retry_after_us", "unfinished_wait_seconds"]
