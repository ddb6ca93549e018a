"""Disks to rehearse on: `MemoryDisk` is the machine, with power cuts; the others wrap a disk and fail on cue."""

from limpet.testing.fault_disks import (
    DiskWrapper,
    DyingDisk,
    FailingSync,
    FullDisk,
    LostReply,
    Operation,
    TornAppend,
)
from limpet.testing.memory_disk import MemoryDisk

__all__ = [
    "DiskWrapper",
    "DyingDisk",
    "FailingSync",
    "FullDisk",
    "LostReply",
    "MemoryDisk",
    "Operation",
    "TornAppend",
]
