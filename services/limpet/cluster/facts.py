"""Facts of a crawl on a cluster: written once by `limpet init`, compared at every start, never adapted to.

Besides the crawl's own facts, the places where its data lies are facts: a process with another topic prefix or another
folder would write into a crawl of its own.
"""

from typing import Final, Protocol

import msgspec

from limpet.clock import Clock
from limpet.cluster.settings import ClusterSettings
from limpet.config import Facts, ScopeFacts, decode_facts
from limpet.model.errors import UsageError
from limpet.model.identity import (
    BUCKETS,
    IDENTITY_RULES_VERSION,
    SEED_BYTES_MIN,
    IdentityRules,
    suffix_list_digest,
)
from limpet.runtime import Random, new_incarnation

CRAWL: Final = "crawl"
PLACES: Final = "places"
NOT_ASKED: Final = frozenset({"crawl", "hash_seed", "created_us", "layout_version", "replicas"})
"""Facts that no configuration names: `limpet init` makes them."""


class FactsTable(Protocol):
    """Named values that are written once. Every call ends within a bound, or raises `Definite` or `Indefinite`."""

    async def read(self, name: str) -> bytes | None:
        """The value; None where nothing was ever written."""
        ...

    async def write_once(self, name: str, value: bytes) -> bytes:
        """Write it unless there is one; what is stored now. May be repeated after `Indefinite`."""
        ...


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """Where the crawl's data lies, beyond its keyspace, and how its due index is cut."""

    kafka_prefix: str
    hdfs_root: str
    slot_seconds: int


def new_facts(settings: ClusterSettings, clock: Clock, rng: Random) -> Facts:
    """The facts that a configuration asks for, with a fresh id and secret."""
    crawl = settings.crawl
    return Facts(
        crawl=new_incarnation(rng),
        shards=crawl.shards,
        buckets=BUCKETS,
        hash_seed=rng.token(SEED_BYTES_MIN),
        suffix_list_digest=suffix_list_digest(),
        identity_version=IDENTITY_RULES_VERSION,
        identity=IdentityRules(exact_urls=crawl.exact_urls, drop_session_ids=crawl.drop_session_ids),
        segment_bytes=crawl.segment_bytes,
        replicas=settings.hdfs.replication,
        seen_capacity=crawl.seen_capacity,
        agent=crawl.agent,
        contact=crawl.contact,
        scope=ScopeFacts(
            kind=crawl.scope,
            depth_max=crawl.depth,
            follow_nofollow=crawl.follow_nofollow,
            requisites=crawl.requisites,
            extras=crawl.extras,
            include=crawl.include,
            exclude=crawl.exclude,
        ),
        created_us=clock.wall_us(),
    )


def places_of(settings: ClusterSettings) -> Places:
    """The places that a configuration names."""
    return Places(
        kafka_prefix=settings.kafka.prefix, hdfs_root=settings.hdfs.root, slot_seconds=settings.cassandra.slot_seconds
    )


async def write_facts(table: FactsTable, settings: ClusterSettings, clock: Clock, rng: Random) -> Facts:
    """The facts of the crawl, written if there were none. Raises `UsageError` naming both values where they differ.

    Two that begin at once agree on the facts of whoever was first.
    """
    stored = await table.write_once(PLACES, msgspec.json.encode(places_of(settings)))
    _check_places(stored, settings)
    body = await table.write_once(CRAWL, msgspec.json.encode(new_facts(settings, clock, rng)))
    return _checked(body, settings, clock, rng)


async def read_facts(table: FactsTable, settings: ClusterSettings, clock: Clock, rng: Random) -> Facts:
    """The facts of the crawl. Raises `UsageError`: there are none, or they are not those of the configuration."""
    places, body = await table.read(PLACES), await table.read(CRAWL)
    if places is None or body is None:
        raise UsageError(f"{_where(settings)} holds no crawl: run `limpet init` with this configuration first")
    _check_places(places, settings)
    return _checked(body, settings, clock, rng)


def _where(settings: ClusterSettings) -> str:
    return f"keyspace {settings.cassandra.keyspace}"


def _check_places(stored: bytes, settings: ClusterSettings) -> None:
    found, asked = msgspec.json.decode(stored, type=Places), places_of(settings)
    keys = {"kafka_prefix": "kafka.prefix", "hdfs_root": "hdfs.root", "slot_seconds": "cassandra.slot_seconds"}
    wrong = [
        f"{key} is {getattr(found, name)!r} in this crawl, but {getattr(asked, name)!r} was asked for"
        for name, key in keys.items()
        if getattr(found, name) != getattr(asked, name)
    ]
    _refuse(wrong, settings)


def _checked(body: bytes, settings: ClusterSettings, clock: Clock, rng: Random) -> Facts:
    facts = decode_facts(body, _where(settings))
    asked = new_facts(settings, clock, rng)
    wrong = [
        f"{_key(name)} is {getattr(facts, name)!r} in this crawl, but {getattr(asked, name)!r} was asked for"
        for name in Facts.__struct_fields__
        if name not in NOT_ASKED and name not in {"scope", "identity"} and getattr(facts, name) != getattr(asked, name)
    ]
    for group in ("scope", "identity"):
        ours, theirs = getattr(asked, group), getattr(facts, group)
        wrong += [
            f"{_key(name)} is {getattr(theirs, name)!r} in this crawl, but {getattr(ours, name)!r} was asked for"
            for name in ours.__struct_fields__
            if getattr(theirs, name) != getattr(ours, name)
        ]
    _refuse(wrong, settings)
    return facts


def _key(name: str) -> str:
    """The key of the configuration that a fact comes from; facts of the program itself stand in words."""
    own = {
        "suffix_list_digest": "the public suffix list",
        "identity_version": "the version of the identity rules",
        "buckets": "the number of buckets",
        "kind": "crawl.scope",
        "depth_max": "crawl.depth",
    }
    return own.get(name, f"crawl.{name}")


def _refuse(wrong: list[str], settings: ClusterSettings) -> None:
    if wrong:
        raise UsageError(
            f"{_where(settings)}: {'; '.join(wrong)}: facts never change; mend the configuration (or the program), "
            "or begin a crawl of its own in another keyspace"
        )
