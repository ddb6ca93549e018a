"""What holds for every URL and every page, hostile ones above all."""

import re
import string

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from limpet.admission.rules import Candidate, Context, Limits, judge
from limpet.admission.scope import Scope, ScopeKind
from limpet.model.identity import Fingerprinter, IdentityRules, bucket_of, identity_key, registrable_domain
from limpet.model.urls import InvalidUrl, canonicalize, canonicalize_all, is_host_name, server_of, split
from limpet.parser.charset import encoding_of
from limpet.parser.decode import DecodeLimits, decode_body
from limpet.parser.links import extract, redirect_target

BASE = "http://base.example/d/p.html?q"
RULES = st.builds(IdentityRules, exact_urls=st.booleans(), drop_session_ids=st.booleans())
AWKWARD = st.text(
    st.one_of(
        st.sampled_from("/\\?#@:;%&=.+~'\"<>[]{}|^` \t\n\r\0\x7f\x80\xadüß。İ\u200d\ufffd\U0001f600"),
        st.sampled_from(string.ascii_letters + string.digits),
    ),
    max_size=30,
)
PIECES = st.sampled_from(
    [
        "utm_source=1",
        "gclid=",
        "&",
        "?",
        ";jsessionid=1",
        "PHPSESSID=2",
        "(S(abc))",
        "/",
        "%e3",
        "%E3",
        "%2",
        "%",
        "sid=",
        "0123456789abcdef" * 2,
        "=",
        "a",
        ";",
        "..",
        ".",
        "@",
        "//",
        "#",
        ":",
        "80",
    ]
)
URLS = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["http://", "https://", "HTTP:\\\\", "http:/", "https:", "//", "", "ftp://"]),
        st.sampled_from(["h", "h.example", "u:p@h", "[::1]", "127.1", "h:81", "bücher.example", ""]),
        st.one_of(AWKWARD, st.lists(PIECES, max_size=12).map("".join)),
    ),
)


def canonical(text: str) -> str | None:
    try:
        return canonicalize(text, BASE)
    except InvalidUrl:
        return None


@settings(max_examples=400)
@given(st.one_of(URLS, AWKWARD))
@example("http://h/a b#c d")
def test_canonical_form_is_idempotent_and_safe(text: str) -> None:
    """canon(canon(u)) = canon(u); the result is ASCII that no line, header or field can misread, and it splits."""
    url = canonical(text)
    if url is None:
        return
    assert canonicalize(url) == url
    parts = split(url)
    assert server_of(url) == (parts.host, parts.authority)
    assert parts.authority + parts.path_query == url
    assert url.isascii()
    assert url.isprintable()
    assert not set(url) & set(" <>#")
    assert '"' not in url or not is_host_name(parts.host)
    assert "@" not in parts.authority


@given(st.lists(st.one_of(URLS, AWKWARD), max_size=5))
def test_the_batch_form_is_the_single_form(texts: list[str]) -> None:
    """canonicalize_all = canonicalize one by one."""
    assert canonicalize_all(texts, BASE) == [canonical(text) for text in texts]


@settings(max_examples=400)
@given(URLS, RULES)
@example("http://h/(S(abc));jsessionid=1", IdentityRules(drop_session_ids=True))
def test_identity_is_idempotent_and_blind_to_hex_case(text: str, rules: IdentityRules) -> None:
    """key(key(u)) = key(u); %e3 and %E3 never differ; a key is still a canonical URL's text."""
    url = canonical(text)
    if url is None:
        return
    key = identity_key(url, rules)
    assert identity_key(key, rules) == key
    for variant in (_recased(url, upper=True), _recased(url, upper=False)):
        assert identity_key(variant, rules) == key
    assert split(key).authority == split(url).authority
    assert len(Fingerprinter(b"sixteen bytes ok").fingerprint(key)) == 16


def _recased(url: str, *, upper: bool) -> str:
    """`url` with every percent-encoded byte in one case."""
    return re.sub("%[0-9A-Fa-f]{2}", lambda match: match[0].upper() if upper else match[0].lower(), url)


@given(st.one_of(URLS.map(canonical), AWKWARD))
def test_owners_are_total_and_stable(text: str | None) -> None:
    """Every host has a domain, which is its own domain, and a bucket."""
    host = text or ""
    domain = registrable_domain(host)
    assert registrable_domain(domain) == domain
    assert bucket_of(host) == bucket_of(domain)
    assert 0 <= bucket_of(host) < 1024


HTML_PIECES = st.sampled_from(
    [
        b"<a href=",
        b"'",
        b'"',
        b">",
        b"<base href=",
        b"<meta charset=",
        b"utf-16",
        b"shift_jis",
        b"iso-2022-jp",
        b"\x1b$B",
        b"&#",
        b"&amp",
        b"<meta http-equiv=refresh content=",
        b"0;url=",
        b"http://",
        b"//",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\0",
        b"<!--",
        b"-->",
        b"<script>",
        b"</script>",
        b"<svg>",
        b"?",
        b"\x81\xe9",
        b" rel=nofollow ",
        b"#",
        b"x",
        b"\n",
    ]
)
BODIES = st.one_of(st.binary(max_size=200), st.lists(HTML_PIECES, max_size=40).map(b"".join))
CONTENT_TYPES = st.one_of(
    st.none(),
    st.binary(max_size=20),
    st.sampled_from(["utf-8", "utf-16", "iso-2022-jp", "big5", "hz-gb-2312", "nonsense"]).map(
        lambda label: b"text/html; charset=" + label.encode()
    ),
    st.sampled_from([b"text/html", b"application/xhtml+xml"]),
)


@settings(max_examples=500)
@given(BODIES, CONTENT_TYPES, st.sampled_from([BASE, "", "nonsense", "http://h/"]))
def test_extraction_is_total_and_gives_canonical_distinct_links(
    body: bytes, content_type: bytes | None, url: str
) -> None:
    """No bytes make the parser raise; every link is canonical, once."""
    page = extract(body, url=url, content_type=content_type, links_max=5)
    assert len(page.links) <= 5
    assert len({(link.url, link.kind) for link in page.links}) == len(page.links)
    assert all(canonicalize(link.url) == link.url for link in page.links)
    assert body.decode(page.charset or "utf-8", "replace") is not None
    assert extract(body, url=url, content_type=content_type, links_max=5) == page


@given(BODIES, CONTENT_TYPES)
def test_every_page_has_an_encoding(body: bytes, content_type: bytes | None) -> None:
    """encoding_of always names a codec that takes the bytes."""
    body.decode(encoding_of(body, content_type), "replace")


@given(st.binary(max_size=60))
def test_every_location_is_a_url_or_none(location: bytes) -> None:
    """Raw bytes never raise and never give anything but a canonical URL."""
    target = redirect_target(location, BASE)
    assert target is None or canonicalize(target) == target


CODINGS = st.lists(st.sampled_from([b"gzip", b"deflate", b"identity", b"br", b"x-gzip", b""]), max_size=4).map(
    b",".join
)
CODED = st.one_of(
    st.binary(max_size=100),
    st.binary(max_size=100).map(lambda tail: b"\x1f\x8b\x08" + tail),
    st.binary(max_size=100).map(lambda tail: b"\x78\x9c" + tail),
)


@settings(max_examples=400)
@given(CODED, CODINGS)
def test_decoding_is_total_and_bounded(payload: bytes, coding: bytes) -> None:
    """Any bytes under any coding decode to no more than the limit, or are handed back."""
    limits = DecodeLimits(decoded_bytes_max=500)
    found = decode_body(payload, coding, limits)
    assert found.data == payload or len(found.data) <= 500


@given(st.one_of(URLS, AWKWARD), st.integers(-1, 10**9), st.booleans(), st.sampled_from(ScopeKind))
def test_every_candidate_gets_a_verdict(text: str, depth: int, seed: bool, kind: ScopeKind) -> None:
    """No text makes judge raise, canonical or not."""
    context = Context(scope=Scope(kind, ("http://h.example/",)), limits=Limits())
    for url in (text, canonical(text) or text):
        verdict = judge(Candidate(url=url, host="h.example", depth=depth, seed=seed), context)
        assert verdict == judge(Candidate(url=url, host="h.example", depth=depth, seed=seed), context)


@given(
    st.one_of(URLS, AWKWARD, st.sampled_from(["http://h", "http:///x/y", "https:///x", "ftp://h/", "http://h:x/", ""]))
)
def test_servers_are_what_splitting_says(text: str) -> None:
    """Canonical or not: the same host and authority, or the same error."""
    for url in (text, canonical(text) or text):
        try:
            parts = split(url)
        except InvalidUrl:
            with pytest.raises(InvalidUrl):
                server_of(url)
        else:
            assert server_of(url) == (parts.host, parts.authority)
