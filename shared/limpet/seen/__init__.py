"""The seen set: derived from rows, may be lost, never lies about what it has."""

from limpet.seen.port import SeenShard

__all__ = ["SeenShard"]
