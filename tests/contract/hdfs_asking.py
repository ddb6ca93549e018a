"""A process that asks a NameNode many things at once for a while, whatever becomes of the answers, and then ends."""

import asyncio
import contextlib
import sys
from typing import Final

from contract.segment_rigs import hdfs_settings
from limpet.clock import SystemClock
from limpet.segments.hdfs import HdfsFault
from limpet.segments.hdfs.native import NativeHdfs

ASKERS: Final = 24


async def main(url: str, namenode_http: str, root: str, seconds: str) -> None:
    """Ask until it is time; how often there was an answer goes to standard output."""
    hdfs, clock, answers = NativeHdfs(hdfs_settings(url, namenode_http, root)), SystemClock(), 0
    deadline = clock.monotonic() + float(seconds)

    async def ask(asker: int) -> None:
        nonlocal answers
        while clock.monotonic() < deadline:
            with contextlib.suppress(HdfsFault):
                await hdfs.mkdirs(f"{root}/{asker}")
                answers += 1
            await clock.sleep(0)

    await asyncio.gather(*(ask(asker) for asker in range(ASKERS)))
    sys.stdout.write(f"{answers}\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
