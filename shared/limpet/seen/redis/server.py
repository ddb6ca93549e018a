"""What is asked of a server before anything else, and what makes it unfit for marks."""

from collections.abc import Sequence
from typing import Any

from limpet.seen.redis.layout import INTSET_ENTRIES
from limpet.seen.redis.link import Command


def hello(facts_key: bytes, facts: bytes) -> list[Command]:
    """The first pipeline of a connection: who are you, and do you hold what I think you hold?"""
    return [
        (b"INFO",),
        (b"CONFIG", b"GET", b"set-max-intset-entries"),
        (b"SET", facts_key, facts, b"NX"),
        (b"GET", facts_key),
    ]


def unfit(hello: Sequence[Any], facts: bytes) -> str:
    """What makes a server unfit, and the remedy; empty when nothing does."""
    info, config, _, stored = hello
    policy = _info(info).get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        return f"it throws marks away when it is full (maxmemory-policy is {policy}): set maxmemory-policy noeviction"
    if isinstance(config, list) and len(config) == 2 and int(config[1]) < INTSET_ENTRIES:
        return (
            f"set-max-intset-entries is {int(config[1])}: set it to {INTSET_ENTRIES} or more, or marks take many times "
            "the memory"
        )
    if isinstance(stored, bytes) and stored != facts:
        return (
            f"it holds {stored.decode(errors='replace')}, not {facts.decode()}: addresses were exchanged, or "
            "seen_capacity was changed without a new epoch"
        )
    return ""


def _info(reply: object) -> dict[str, str]:
    if not isinstance(reply, bytes):
        return {}
    pairs = (line.partition(":") for line in reply.decode(errors="replace").splitlines())
    return {name: value for name, colon, value in pairs if colon}


def version(hello: Sequence[Any]) -> str:
    """Name and version."""
    info = _info(hello[0])
    if "valkey_version" in info:
        return f"valkey {info['valkey_version']}"
    return f"redis {info['redis_version']}" if "redis_version" in info else "unknown"
