"""Where a crawl keeps a host."""

from limpet.config import Facts
from limpet.model.identity import bucket_of, shard_of
from limpet.model.urls import split


def shard_of_host(host: str, facts: Facts) -> int:
    """The shard that owns a host: all hosts of a registrable domain have one owner."""
    return shard_of(bucket_of(host, facts.buckets), facts.shards)


def shard_of_url(url: str, facts: Facts) -> int:
    """The shard that owns the host of a canonical URL. Raises `InvalidUrl`."""
    return shard_of_host(split(url).host, facts)
