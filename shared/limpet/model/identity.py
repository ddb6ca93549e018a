"""When two URLs are one, and who owns them: identity keys, fingerprints, registrable domains, buckets, shards.

Everything here is a *fact* of a crawl: a row written under one rule is not found under another. A change of
rules needs a new `IDENTITY_RULES_VERSION`.
"""

import hashlib
import re
from functools import cache, lru_cache
from importlib import resources

import mmh3
import msgspec
from publicsuffixlist import PublicSuffixList

IDENTITY_RULES_VERSION = 1
BUCKETS = 1024
SHARDS = 32
BUCKET_HASH_SEED = 0x4C494D50  # "LIMP": not a secret, only fixed, so that every process finds the same owner
SEED_BYTES_MIN = 16

_LOWER_HEX = re.compile(r"%(?:[0-9A-Fa-f][a-f]|[a-f][0-9A-F])")
_TRACKING = frozenset({"gclid", "fbclid"})
_SESSION = frozenset({"phpsessid", "jsessionid", "sessionid", "session_id", "cfid", "cftoken", "oscsid", "zenid"})
_SESSION_VALUE_LENGTH = 32
_DOMAINS_CACHED_MAX = 65_536


class IdentityRules(msgspec.Struct, frozen=True):
    """Which differences between URLs count for nothing.

    `exact_urls` keeps tracking parameters; `drop_session_ids` also ignores session ids in query and path.
    The case of percent-encoded hex digits never counts (RFC 3986 §6.2.2.1).
    """

    exact_urls: bool = False
    drop_session_ids: bool = False


def identity_key(url: str, rules: IdentityRules) -> str:
    """The text by which a canonical `url` is known; may be lossy, so it is never requested or archived. Idempotent.

    By default parameters named ``utm_…``, ``gclid`` and ``fbclid`` are left out. Order and spelling
    of the others are kept: servers may tell them apart.
    """
    if "%" in url:
        url = _LOWER_HEX.sub(lambda match: match[0].upper(), url)
    if rules.drop_session_ids:
        url = _without_path_session(url)
    base, mark, query = url.partition("?")
    if not query or not _may_drop(query, rules):
        return url
    kept = [part for part in query.split("&") if not _dropped(part, rules)]
    return f"{base}{mark}{'&'.join(kept)}" if kept else base


def _may_drop(query: str, rules: IdentityRules) -> bool:
    if rules.drop_session_ids:
        return True
    if rules.exact_urls:
        return False
    lower = query.lower()
    return "utm_" in lower or "clid" in lower


def _dropped(parameter: str, rules: IdentityRules) -> bool:
    name, _, value = parameter.partition("=")
    name = name.lower()
    if not rules.exact_urls and (name in _TRACKING or name.startswith("utm_")):
        return True
    return rules.drop_session_ids and _names_session(name, value)


def _names_session(name: str, value: str) -> bool:
    """Whether a parameter carries a session id; ``sid`` is an ordinary name unless its value looks like one."""
    if name in _SESSION or name.startswith("aspsessionid"):
        return True
    return name == "sid" and len(value) == _SESSION_VALUE_LENGTH and value.isalnum()


def _without_path_session(url: str) -> str:
    """`url` without ``;jsessionid=…`` path parameters and ASP.NET's ``(S(…))`` segments."""
    if ";" not in url and "/(S(" not in url:
        return url
    resource, mark, query = url.partition("?")
    start = resource.index("/", resource.index("://") + 3)
    segments = resource[start:].split("/")
    # parameters first: a segment may be a session's once its own session parameter is gone, and keys are idempotent
    bare = map(_without_parameters, segments)
    path = "/".join(segment for segment in bare if not _is_cookieless_session(segment))
    return f"{resource[:start]}{path if path.startswith('/') else '/' + path}{mark}{query}"


def _without_parameters(segment: str) -> str:
    name, *parameters = segment.split(";")
    return ";".join([name, *(x for x in parameters if not _names_session(*_name_and_value(x)))])


def _name_and_value(parameter: str) -> tuple[str, str]:
    name, _, value = parameter.partition("=")
    return name.lower(), value


def _is_cookieless_session(segment: str) -> bool:
    inner = segment.removeprefix("(S(").removesuffix("))")
    return len(segment) == len(inner) + 5 and inner.isalnum()


class Fingerprinter:
    """Turns identity keys into 16-byte row keys, differently in every crawl.

    `seed` is a secret of the crawl, at least `SEED_BYTES_MIN` bytes (ValueError otherwise). MurmurHash3 takes 32
    seed bits only, so the secret goes in twice: 32 bits as the hash's seed, 16 bytes as a prefix of every key.
    This keeps strangers from preparing colliding URLs cheaply; it is no cryptographic promise, so the row's identity
    key is still compared wherever a fingerprint is looked up.
    """

    __slots__ = ("_prefix", "_seed")

    def __init__(self, seed: bytes) -> None:
        if len(seed) < SEED_BYTES_MIN:
            message = f"a fingerprint seed has at least {SEED_BYTES_MIN} bytes, not {len(seed)}"
            raise ValueError(message)
        digest = hashlib.blake2b(seed, digest_size=20, person=b"limpet-fp").digest()
        self._seed = int.from_bytes(digest[:4], "big")
        self._prefix = digest[4:]

    def fingerprint(self, key: str) -> bytes:
        """The 16-byte fingerprint of an identity key: x64 128-bit MurmurHash3."""
        return mmh3.mmh3_x64_128_digest(self._prefix + key.encode("utf-8", "surrogatepass"), self._seed)


@lru_cache(maxsize=_DOMAINS_CACHED_MAX)
def registrable_domain(host: str) -> str:
    """The domain whose owner answers for `host`: one label below the public suffix, private suffixes included.

    `host` as `limpet.model.urls.SplitUrl` gives it. An address, a single label, a public suffix and
    a malformed name stand for themselves; a trailing dot makes no other owner. Source: https://publicsuffix.org/list/
    """
    name = host.rstrip(".")
    if ":" in name or name.rpartition(".")[2].isdigit():
        return name
    return _suffixes().privatesuffix(name) or name


@cache
def _suffixes() -> PublicSuffixList:
    """The list, parsed at first use: it takes longer than everything else that happens at start."""
    return PublicSuffixList()


def bucket_of(host: str, buckets: int = BUCKETS) -> int:
    """The bucket of `host`: 32-bit MurmurHash3 of its registrable domain, so a whole domain has one owner."""
    return mmh3.mmh3_32_uintdigest(registrable_domain(host).encode(), BUCKET_HASH_SEED) % buckets


def shard_of(bucket: int, shards: int = SHARDS) -> int:
    """The shard that holds `bucket`: seen shard, admission partition and embedded shard alike."""
    return bucket % shards


@cache
def suffix_list_digest() -> str:
    """SHA-256 (hex) of the public suffix list in use. Another list may move hosts to other buckets."""
    data = resources.files("publicsuffixlist").joinpath("public_suffix_list.dat").read_bytes()
    return hashlib.sha256(data).hexdigest()
