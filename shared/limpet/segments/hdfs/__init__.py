"""Segments on HDFS: one file each, replicated by HDFS, synced on every DataNode of its pipeline once a group.

`HdfsSegments` is the store, `HdfsSettings` says where; `limpet.segments.hdfs.native` talks to real servers,
`limpet.testing.hdfs` is a cluster in memory.
"""

from limpet.segments.hdfs.cluster import Block, FileBlocks, Hdfs, HdfsFault, HdfsFile, HdfsReader, LeaseLost, Room
from limpet.segments.hdfs.pull import pull
from limpet.segments.hdfs.settings import Alert, HdfsSettings, IsAlive
from limpet.segments.hdfs.store import HdfsSegments

__all__ = [
    "Alert",
    "Block",
    "FileBlocks",
    "Hdfs",
    "HdfsFault",
    "HdfsFile",
    "HdfsReader",
    "HdfsSegments",
    "HdfsSettings",
    "IsAlive",
    "LeaseLost",
    "Room",
    "pull",
]
