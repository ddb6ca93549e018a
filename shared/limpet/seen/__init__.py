"""The seen set: derived from rows, may be lost, never lies about what it has."""

from limpet.seen.patient import PatientSeen
from limpet.seen.port import SeenShard, SeenUnavailable
from limpet.seen.rebuild import rebuild

__all__ = ["PatientSeen", "SeenShard", "SeenUnavailable", "rebuild"]
