"""Take-over times, read from logs that were made by hand."""

from datetime import datetime

from e2e.cluster.takeover import takeover_seconds

KILLED = "2026-12-01T02:00:10.000Z"


def log(*lines: str) -> str:
    """Of one crawl node, at 02:00: `second verb shard`."""
    told = [line.split(" ") for line in lines]
    return "".join(
        f"2026-12-01T02:00:{second}Z INFO limpet.crawlnode shard {verb.replace('-', ' ')} shard={shard} epoch=1\n"
        for second, verb, shard in told
    )


def us(at: str) -> int:
    return round(datetime.fromisoformat(at).timestamp() * 1e6)


def test_the_last_of_its_shards_counts() -> None:
    """What it had given back before is not its; what others took before its death, or of others, neither."""
    dead = log("01.000 taken 4", "01.000 taken 5", "01.000 taken 6", "05.000 given-back 6")
    others = [log("06.000 taken 6", "30.500 taken 5", "50.000 taken 9", "55.000 taken 4"), log("28.000 taken 4")]
    assert takeover_seconds(dead, [dead, *others], us(KILLED)) == 20.5


def test_a_node_without_shards_leaves_nobody_alone() -> None:
    """Nor does one whose shards nobody took before the end."""
    assert takeover_seconds(log(), [log("20.000 taken 1")], us(KILLED)) is None
    dead = log("01.000 taken 4")
    assert takeover_seconds(dead, [dead, log("20.000 taken 1")], us(KILLED)) is None
