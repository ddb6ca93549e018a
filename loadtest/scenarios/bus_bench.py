"""What the Kafka bus costs this process: messages a second and CPU a message, on one real broker that it starts.

    PYTHONPATH=loadtest:infra/local python -m scenarios.bus_bench [--messages 40000] [--out FILE] [--adr PAGE]

ADR 0014 quotes loadtest/evidence/bus_kafka.json. CPU is that of the whole process, the driver's threads included and
the broker's not. `alone` publishes one message at a time from 64 tasks, as a crawl node does; `together` publishes 500
at a time, as a parser may. `read` receives up to 64 and commits them, partition by partition.
"""

import argparse
import asyncio
import json
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import confluent_kafka

from limpet.bus.kafka import KafkaBus, KafkaConsumer, KafkaSettings, TopicSpec
from limpet.clock import SystemClock
from limpet.model.events import DOCUMENT_FETCHED
from servers import Folder
from servers.kafka import Kafka

PARTITIONS = 8
PUBLISHERS = 64
TOGETHER = 500
BATCH = 64
MARKERS = ("<!-- measured: begin -->\n", "<!-- measured: end -->\n")
TITLES = {
    "alone": "publish, one message each, 64 at once",
    "together": "publish, 500 messages each",
    "read": "receive up to 64, commit them, 8 partitions",
}
EVENT = b"e" * 420  # a document.fetched as it is encoded


async def measured(messages: int, work: Callable[[], Awaitable[Any]]) -> dict[str, float]:
    """Rate and CPU of one piece of work."""
    cpu, begin = time.process_time(), time.perf_counter()
    await work()
    seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - cpu
    return {
        "messages": messages,
        "messages_a_second": round(messages / seconds),
        "cpu_us_a_message": round(cpu_seconds / messages * 1e6, 1),
    }


async def publish_alone(bus: KafkaBus, messages: int) -> None:
    """One message a publish, from many tasks."""

    async def publisher(number: int) -> None:
        for _ in range(messages // PUBLISHERS):
            await bus.producer.publish(DOCUMENT_FETCHED, [(number % PARTITIONS, EVENT)])

    await asyncio.gather(*(publisher(number) for number in range(PUBLISHERS)))


async def publish_together(bus: KafkaBus, messages: int) -> None:
    """Many messages a publish, one publish after the other."""
    batch = [(number % PARTITIONS, EVENT) for number in range(TOGETHER)]
    for _ in range(messages // TOGETHER):
        await bus.producer.publish(DOCUMENT_FETCHED, batch)


async def read(bus: KafkaBus, messages: int, commits: list[float]) -> None:
    """Every partition to its end, all at once."""
    left = messages

    async def reader(consumer: KafkaConsumer) -> None:
        nonlocal left
        while left > 0:
            await consumer.wait(0.2)
            batch = await consumer.receive(BATCH)
            if not batch:
                continue
            left -= len(batch)
            begin = time.perf_counter()
            await consumer.commit([message.position for message in batch])
            commits.append(time.perf_counter() - begin)

    consumers = [await bus.consumer(DOCUMENT_FETCHED, partition) for partition in range(PARTITIONS)]
    await asyncio.gather(*(reader(consumer) for consumer in consumers))


async def bench(bootstrap: str, messages: int) -> dict[str, Any]:
    """All of it."""
    settings = KafkaSettings(bootstrap=bootstrap, prefix="bench")
    spec = TopicSpec(name=DOCUMENT_FETCHED, partitions=PARTITIONS, replication=1, min_insync=1)
    commits: list[float] = []
    async with KafkaBus(settings, SystemClock(), min_insync=1) as bus:
        await bus.topics.ensure([spec])
        await publish_together(bus, 2 * TOGETHER)  # the first producer takes seconds
        alone = await measured(messages, lambda: publish_alone(bus, messages))
        together = await measured(messages, lambda: publish_together(bus, messages))
        total = 2 * TOGETHER + messages // PUBLISHERS * PUBLISHERS + messages // TOGETHER * TOGETHER
        reading = await measured(total, lambda: read(bus, total, commits))
    reading["commits"] = len(commits)
    reading["commit_ms_p50"] = round(statistics.median(commits) * 1000, 2)
    return {"alone": alone, "together": together, "read": reading}


def table(record: dict[str, Any]) -> str:
    """The figures as the ADR shows them."""
    lines = ["| | messages/s | CPU µs a message |", "|---|---|---|"]
    for key, title in TITLES.items():
        found = record[key]
        lines.append(f"| {title} | {found['messages_a_second']:,} | {found['cpu_us_a_message']} |")
    read = record["read"]
    lines += ["", f"Median commit: {read['commit_ms_p50']} ms. Messages of {record['message_bytes']} bytes."]
    return "\n".join(lines) + "\n"


def written(page: str, record: dict[str, Any]) -> str:
    """The page with these figures between its markers."""
    before, _, rest = page.partition(MARKERS[0])
    _, _, after = rest.partition(MARKERS[1])
    return f"{before}{MARKERS[0]}{table(record)}{MARKERS[1]}{after}"


def main() -> int:
    """Start a broker, measure, stop it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=40_000)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--adr", type=Path, help="write the figures between the markers of this page")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kafka = Kafka(Folder.at(Path(folder)), tied=True)
        try:
            endpoints = kafka.up()
            found = asyncio.run(bench(endpoints["bootstrap"], args.messages))
        finally:
            kafka.down()
    record = {
        "command": "PYTHONPATH=loadtest:infra/local python -m scenarios.bus_bench " + " ".join(sys.argv[1:]),
        "python": platform.python_version(),
        "confluent_kafka": confluent_kafka.version(),
        "message_bytes": len(EVENT),
        **found,
    }
    text = json.dumps(record, indent=2) + "\n"
    print(text, end="")
    if args.out:
        args.out.write_text(text)
    if args.adr:
        args.adr.write_text(written(args.adr.read_text(), record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
