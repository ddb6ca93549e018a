"""Facts of a crawl: written once, checked at every start, never process settings.

Two processes that disagree about one of these would write into different places or judge URLs differently, so a
difference is refused by name (`UsageError` naming both values), not adapted to.
"""

import msgspec

from limpet.model.errors import UsageError
from limpet.model.identity import IdentityRules

LAYOUT_VERSION = 1


class ScopeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What belongs to the crawl. `depth_max` is None when unlimited.

    `include`, `exclude`: regular expressions (RE2) over canonical URLs; a URL that an exclude matches is never fetched.

    `requisites`: also what its pages need to be shown, wherever that lies. `extras`: also alternates, feeds and
    sitemaps, and the entries of these.
    """

    kind: str = "host"  # page | host | domain | prefix | any
    depth_max: int | None = None
    follow_nofollow: bool = False
    requisites: bool = False
    extras: bool = False
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that must never change under a crawl. `hash_seed` is a secret: it keeps fingerprints unguessable.

    `seen_capacity`: URLs that the seen shards of a cluster are laid out for; the embedded form does not ask.
    """

    layout_version: int = LAYOUT_VERSION
    crawl: str  # the crawl's id, in every event and segment
    shards: int = 32
    buckets: int = 1024
    hash_seed: bytes
    suffix_list_digest: str
    identity_version: int = 1
    identity: IdentityRules = IdentityRules()
    segment_bytes: int = 1_000_000_000
    replicas: int = 1
    seen_capacity: int = 10_000_000_000
    agent: str = "limpet"
    contact: str = ""
    scope: ScopeFacts = ScopeFacts()
    created_us: int = 0


def differences(stored: Facts, asked: Facts, names: tuple[str, ...]) -> list[str]:
    """One line for each fact in `names` that differs, naming both values."""
    return [
        f"{name} is {getattr(stored, name)!r} in this crawl, but {getattr(asked, name)!r} was asked for"
        for name in names
        if getattr(stored, name) != getattr(asked, name)
    ]


def decode_facts(text: bytes, where: str) -> Facts:
    """Read a facts file. Raises `UsageError` naming `where` when it is not ours or of another layout."""
    try:
        facts = msgspec.json.decode(text, type=Facts)
    except msgspec.MsgspecError as error:
        raise UsageError(f"{where} is not a crawl folder of this version of Limpet: {error}") from error
    if facts.layout_version != LAYOUT_VERSION:
        raise UsageError(
            f"{where} has layout version {facts.layout_version}; this Limpet reads version {LAYOUT_VERSION}: "
            "use the Limpet that made it"
        )
    return facts
