"""The authority on SQLite: one file a shard, written by its owner, readable by everybody."""

from limpet.urlstore.sqlite.store import SqliteUrlStore
from limpet.urlstore.sqlite.upkeep import Anchor
from limpet.urlstore.sqlite.view import QueueState, ShardView, Unfinished

__all__ = ["Anchor", "QueueState", "ShardView", "SqliteUrlStore", "Unfinished"]
