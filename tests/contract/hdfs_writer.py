"""A process that appends to HDFS until it is killed, and says on standard output what was acknowledged."""

import asyncio
import sys

import msgspec

from contract.captures import capture, warcinfo
from contract.hdfs_driving import BODY_REPEATS
from contract.segment_rigs import HdfsRig, hdfs_settings
from limpet.segments.hdfs.native import NativeHdfs


async def main(url: str, namenode_http: str, root: str) -> None:
    settings = hdfs_settings(url, namenode_http, root)
    writer = await HdfsRig(settings, NativeHdfs(settings), 1).store().open_writer("a" * 16, warcinfo)

    async def append(task: int) -> None:
        for number in range(task, 10**6, 16):
            locations = await writer.append(capture(number, BODY_REPEATS))
            sys.stdout.write(msgspec.json.encode([number, locations]).decode() + "\n")
            sys.stdout.flush()

    await asyncio.gather(*(append(task) for task in range(16)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
