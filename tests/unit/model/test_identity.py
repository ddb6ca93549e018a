"""Identity keys, fingerprints, registrable domains, buckets and shards."""

import hashlib
from importlib import resources

import pytest

from limpet.model.identity import (
    BUCKETS,
    SHARDS,
    Fingerprinter,
    IdentityRules,
    bucket_of,
    identity_key,
    registrable_domain,
    shard_of,
    suffix_list_digest,
)

DEFAULT = IdentityRules()
EXACT = IdentityRules(exact_urls=True)
NO_SESSIONS = IdentityRules(drop_session_ids=True)
SID = "0123456789abcdef0123456789ABCDEF"


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://h/a", "http://h/a"),
        ("http://h/?utm_source=x", "http://h/"),
        ("http://h/?UTM_Source=x&a=1", "http://h/?a=1"),
        ("http://h/?a=1&utm_medium&b=2&gclid=3&fbclid=4", "http://h/?a=1&b=2"),
        ("http://h/?a=utm_source", "http://h/?a=utm_source"),
        ("http://h/?xutm_source=1&dgclid=2", "http://h/?xutm_source=1&dgclid=2"),
        ("http://h/?b=2&a=1&&", "http://h/?b=2&a=1&&"),
        ("http://h/?", "http://h/?"),
        ("http://h/a?b?utm_source=1", "http://h/a?b?utm_source=1"),
        ("http://h/?PHPSESSID=1", "http://h/?PHPSESSID=1"),
        ("http://h/a;jsessionid=1", "http://h/a;jsessionid=1"),
    ],
)
def test_by_default_only_tracking_parameters_are_ignored(url: str, key: str) -> None:
    """utm_…, gclid and fbclid say where a reader came from; everything else may select the page."""
    assert identity_key(url, DEFAULT) == key


def test_percent_encoding_has_one_case() -> None:
    """%e3 and %E3 are one octet (RFC 3986 §6.2.2.1), under every rule set; what is no encoding is left alone."""
    for rules in (DEFAULT, EXACT, NO_SESSIONS):
        assert identity_key("http://h/%e3%83%84?%aF%fa", rules) == "http://h/%E3%83%84?%AF%FA"
        assert identity_key("http://h/90%+%zz%%3a%4", rules) == "http://h/90%+%zz%%3A%4"


def test_exact_urls_keep_tracking_parameters() -> None:
    """The switch turns the default off and nothing else on."""
    assert identity_key("http://h/?utm_source=x&gclid=1", EXACT) == "http://h/?utm_source=x&gclid=1"


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://h/a;jsessionid=1", "http://h/a"),
        ("http://h/a;JSESSIONID=1;v=2/b;x?q", "http://h/a;v=2/b;x?q"),
        ("http://h/?PHPSESSID=1&a=2", "http://h/?a=2"),
        ("http://h/?ASPSESSIONIDABCD=1", "http://h/"),
        (f"http://h/?sid={SID}", "http://h/"),
        ("http://h/?sid=7", "http://h/?sid=7"),
        ("http://h/(S(lit3py55t21z5v55vlm25s55))/a.aspx", "http://h/a.aspx"),
        ("http://h/(S(a))", "http://h/"),
        ("http://h/f(S(a))g", "http://h/f(S(a))g"),
        ("http://h/?q=;jsessionid=1", "http://h/?q=;jsessionid=1"),
    ],
)
def test_session_ids_are_ignored_on_request(url: str, key: str) -> None:
    """drop_session_ids covers query parameters, path parameters and ASP.NET's path segments."""
    assert identity_key(url, NO_SESSIONS) == key
    assert identity_key(url, DEFAULT) == url


def test_exact_urls_may_still_drop_sessions() -> None:
    """The two switches are independent."""
    rules = IdentityRules(exact_urls=True, drop_session_ids=True)
    assert identity_key("http://h/?utm_source=1&jsessionid=2", rules) == "http://h/?utm_source=1"


def test_fingerprints_depend_on_key_and_seed() -> None:
    """16 bytes, the same for the same key and seed, different for any other, in every byte of the seed."""
    seed = bytes(range(32))
    one = Fingerprinter(seed).fingerprint("http://h/a")
    assert len(one) == 16
    assert one == Fingerprinter(seed).fingerprint("http://h/a")
    assert one != Fingerprinter(seed).fingerprint("http://h/b")
    for place in range(len(seed)):
        other = bytearray(seed)
        other[place] ^= 1
        assert Fingerprinter(bytes(other)).fingerprint("http://h/a") != one


def test_fingerprints_and_buckets_are_frozen() -> None:
    """Rows written by one version are found by the next: these values never change."""
    fingerprint = Fingerprinter(b"limpet test seed").fingerprint("http://example.org/")
    assert fingerprint.hex() == "f4c85c46faede7bc60b06c0f256363f0"
    assert bucket_of("example.org") == 973
    assert bucket_of("127.0.0.1") == 221


def test_a_short_seed_is_refused() -> None:
    """A seed that can be guessed protects nobody."""
    with pytest.raises(ValueError, match="at least 16 bytes"):
        Fingerprinter(b"short")


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("example.org", "example.org"),
        ("a.b.example.org", "example.org"),
        ("a.example.org.", "example.org"),
        ("www.example.co.uk", "example.co.uk"),
        ("x.alice.github.io", "alice.github.io"),
        ("github.io", "github.io"),
        ("co.uk", "co.uk"),
        ("xn--85x722f.xn--55qx5d.cn", "xn--85x722f.xn--55qx5d.cn"),
        ("localhost", "localhost"),
        ("host.unknown-tld", "host.unknown-tld"),
        ("127.0.0.1", "127.0.0.1"),
        ("2001:db8::1", "2001:db8::1"),
        ("[2001:db8::1]", "[2001:db8::1]"),
        ("a..b", "a..b"),
        ("", ""),
    ],
)
def test_registrable_domains(host: str, domain: str) -> None:
    """One label below the public suffix, private ones included; addresses and suffixes stand for themselves."""
    assert registrable_domain(host) == domain


def test_all_hosts_of_a_domain_share_a_bucket() -> None:
    """A domain has one owner; a private suffix separates its customers."""
    assert bucket_of("a.example.org") == bucket_of("b.c.example.org") == bucket_of("example.org")
    customers = {bucket_of(f"customer{n}.github.io") for n in range(200)}
    assert len(customers) > 150


def test_buckets_and_shards_are_in_range_and_spread() -> None:
    """Every bucket is used, every shard gets its share."""
    buckets = [bucket_of(f"site{n}.example") for n in range(20_000)]
    assert set(buckets) == set(range(BUCKETS))
    shards = [shard_of(bucket) for bucket in buckets]
    counts = [shards.count(shard) for shard in range(SHARDS)]
    assert sum(counts) == len(buckets)
    assert min(counts) > 500
    assert shard_of(33) == 1
    assert shard_of(33, shards=8) == 1
    assert 0 <= bucket_of("h.example", buckets=4) < 4


def test_the_suffix_list_has_a_digest() -> None:
    """Another list may give other owners, so its digest is a fact of the crawl."""
    data = (resources.files("publicsuffixlist") / "public_suffix_list.dat").read_bytes()
    assert suffix_list_digest() == hashlib.sha256(data).hexdigest()
