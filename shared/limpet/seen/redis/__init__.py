"""The seen port on many small Redis or Valkey servers; the only room that knows redis-py."""

from limpet.seen.redis.address import Address
from limpet.seen.redis.ghosts import ghosts
from limpet.seen.redis.layout import Layout
from limpet.seen.redis.pipelines import Bounds
from limpet.seen.redis.shard import RedisSeen
from limpet.seen.redis.survey import Survey

__all__ = ["Address", "Bounds", "Layout", "RedisSeen", "Survey", "ghosts"]
