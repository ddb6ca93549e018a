"""Robots laws over generated files, with a slow reference matcher that shares no code with the library."""

import hashlib
import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from protego import Protego

from limpet.robots import (
    BODY_BYTES_MAX,
    Fetch,
    HttpAnswer,
    License,
    NetworkFailure,
    RobotsAnswer,
    RobotsJudge,
    RobotsState,
    Settled,
    Wait,
    advance,
    digest,
    gives_up,
    next_step,
    parse,
)
from limpet.robots.lines import capped
from limpet.robots.octets import DECODED, target
from limpet.robots.patterns import matches, pattern
from limpet.robots.retrieval import FailureKind

CASES = Path(os.environ.get("LIMPET_CASES") or Path(__file__).parents[2] / ".." / "shared" / "cases")
DAY = 86_400_000_000
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-"


often = settings(deadline=None, max_examples=300)  # no deadline: a busy machine is no failure

# --- the reference: Google's published parser, retold one step at a time, as slow as it likes ---


def reference_key(key: str) -> str:
    """What a key counts as, frequent typos included."""
    beginnings = {
        "agent": ["user-agent", "useragent", "user agent"],
        "allow": ["allow"],
        "disallow": ["disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"],
    }
    for kind, words in beginnings.items():
        for word in words:
            if key.lower().startswith(word):
                return kind
    return "other"


def reference_line(line: str) -> tuple[str, str]:
    """Kind and value of one line."""
    line = line.split("#", maxsplit=1)[0].strip(" \t\n\v\f\r")
    if ":" in line:
        key, value = line.split(":", 1)
        return reference_key(key.strip(" \t\v\f")), value.strip(" \t\v\f")
    words = line.replace("\t", " ").split(" ")
    words = [word for word in words if word]
    return (reference_key(words[0]), words[1]) if len(words) == 2 else ("other", "")


def reference_token(value: str) -> str:
    """The letters, dashes and underscores that a value begins with."""
    token = ""
    for letter in value:
        if letter not in LETTERS:
            break
        token += letter
    return token.lower()


def reference_escape(text: str) -> str:
    """Bytes beyond ASCII escaped, hex digits of escapes in upper case, all else as it is."""
    out = ""
    at = 0
    while at < len(text):
        pair = text[at + 1 : at + 3]
        if text[at] == "%" and len(pair) == 2 and all(digit in "0123456789abcdefABCDEF" for digit in pair):
            out += "%" + pair.upper()
            at += 3
        else:
            out += text[at] if ord(text[at]) < 128 else "".join(f"%{octet:02X}" for octet in text[at].encode())
            at += 1
    return out


def reference_unescape(text: str) -> str:
    """Escapes of letters, digits and `-._~` undone, all else as it is."""
    out = ""
    at = 0
    while at < len(text):
        escape = text[at : at + 3]
        escaped = (
            len(escape) == 3 and escape[0] == "%" and all(digit in "0123456789abcdefABCDEF" for digit in escape[1:])
        )
        letter = chr(int(escape[1:], 16)) if escaped else ""
        if letter and ord(letter) < 128 and (letter.isalnum() or letter in "-._~"):
            out += letter
            at += 3
        else:
            out += text[at : at + (3 if letter else 1)]
            at += 3 if letter else 1
    return out


def reference_matches(path: str, rule: str) -> bool:
    """All positions in the path that the rule, read so far, can have reached."""
    positions = {0}
    for index, letter in enumerate(rule):
        if letter == "$" and index == len(rule) - 1:
            return len(path) in positions
        if letter == "*":
            positions = set(range(min(positions), len(path) + 1)) if positions else set()
        else:
            positions = {at + 1 for at in positions if at < len(path) and path[at] == letter}
    return bool(positions)


def reference_allows(text: str, agent: str, path: str) -> bool:
    """The verdict, line by line, with the flags of the published parser."""
    if path == "/robots.txt":
        return True
    best = {"specific": {"allow": 0, "disallow": 0}, "global": {"allow": 0, "disallow": 0}}
    specific = everyone = separator = ever_specific = False
    path = reference_escape(path)
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        kind, value = reference_line(line)
        if kind == "agent":
            if separator:
                specific = everyone = separator = False
            if value == "*" or value[:2] in ("* ", "*\t"):
                everyone = True
            elif reference_token(value) and reference_token(value) == agent.lower():
                specific = ever_specific = True
        elif kind in ("allow", "disallow") and (specific or everyone):
            separator = True
            rule = reference_escape(value)
            scope = "specific" if specific else "global"
            if reference_matches(path, rule):
                best[scope][kind] = max(best[scope][kind], len(rule))
            if kind == "allow" and reference_matches(reference_unescape(path), reference_unescape(rule)):
                best[scope][kind] = max(best[scope][kind], len(reference_unescape(rule)))
    chosen = best["specific"] if ever_specific else best["global"]
    return chosen["disallow"] <= chosen["allow"]


# --- generated files and URLs ---

PATHS = st.text(st.sampled_from("/abB?%24*$.~"), max_size=8).map(lambda tail: "/" + tail)
PATTERNS = st.text(st.sampled_from("/abB?%24*$.~é# "), max_size=8).map(lambda tail: "/" + tail) | st.sampled_from(
    ["", "/", "*", "/*", "$", "/$", "a", "/%62", "/%2f", "/*%2", "/%7e", "/a/*$", "/**a", "*a*b*"]
)
KEYS = st.sampled_from(
    ["Disallow:", "Allow:", "disallow", "Disalow:", "Desallow:", "allow", "Allowed:", "Disallow a:", "x:", "Sitemap:"]
)
AGENT_LINES = st.tuples(
    st.sampled_from(["User-agent:", "user agent:", "user-agent", "user agent", "useg-agent:", "useragent :"]),
    st.sampled_from(["*", "limpet", "Limpet/2", "foo", "limpetbot", "* x", "*,limpet", "foo, limpet", "a b", ""]),
)
LINES = st.tuples(KEYS, PATTERNS) | AGENT_LINES | st.just(("", "")) | st.just(("Crawl-delay:", "5"))
FILES = st.lists(LINES, max_size=12).map(
    lambda lines: "User-agent: *\n" + "\n".join(f"{key} {value}" for key, value in lines) + "\n"
)


def _allows(text: str, path: str, agent: str = "limpet") -> bool:
    return parse(text.encode()).allows(agent, f"http://example.com{path}")


@settings(deadline=None)
@given(st.binary(max_size=400), st.text(max_size=20), st.text(max_size=40))
def test_no_bytes_raise(body: bytes, agent: str, url: str) -> None:
    """Any body, any agent, any URL: an answer, the same each time."""
    rules = parse(body)
    decision = rules.decide(agent, url)
    assert rules.allows(agent, url) is decision.allowed
    assert decision.rule is None or decision.rule.isprintable()
    assert rules.names(agent) in (True, False)
    delay = rules.crawl_delay(agent)
    assert delay is None or 0 <= delay < float("inf")
    assert parse(body).decide(agent, url) == decision


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([b"User-agent", b"Disallow", b":", b" ", b"/", b"\xff", b"\0", b"*", b"\r", b"\n", b"%"]))
)
def test_no_almost_valid_bytes_raise(pieces: list[bytes]) -> None:
    """The same for bodies that look like robots.txt."""
    assert parse(b"".join(pieces)).allows("limpet", "http://example.com/x") in (True, False)


@often
@given(FILES, PATHS)
def test_never_more_permissive_than_the_reference(text: str, path: str) -> None:
    """What we allow, Google's parser allows too once needless escapes of an Allow are undone, whatever the file."""
    if _allows(text, path):
        assert reference_allows(text, "limpet", path)


@often
@given(
    st.lists(
        st.tuples(st.sampled_from(["Allow", "Disallow"]), st.text(st.sampled_from("/ab*$?."), max_size=6)), max_size=8
    ),
    st.text(st.sampled_from("/ab?."), max_size=8),
)
def test_equal_to_the_reference_without_escapes(rules: list[tuple[str, str]], tail: str) -> None:
    """In a well-formed file without percent signs there is only one reading: no over-blocking either."""
    text = "User-agent: limpet\n" + "".join(f"{key}: /{value}\n" for key, value in rules)
    assert _allows(text, "/" + tail) is reference_allows(text, "limpet", "/" + tail)


@often
@given(st.text(st.sampled_from("ab*$"), min_size=1, max_size=8), st.text(st.sampled_from("ab"), max_size=10))
def test_one_pattern_matches_as_the_reference_does(rule: str, path: str) -> None:
    """The search for pieces between stars is exact, not an approximation."""
    found = pattern(rule.encode(), DECODED)
    simple = not found.middles and found.tail is None
    got = path.encode().startswith(found.head) if simple else matches(found, path.encode())
    if not found.middles and found.tail == b"":
        got = path.encode() == found.head
    assert got is reference_matches(path, rule)


@often
@given(FILES, PATHS, PATTERNS)
def test_one_more_disallow_never_allows(text: str, path: str, rule: str) -> None:
    """A further Disallow, longer or not, for the same group never frees a URL."""
    before = "User-agent: limpet\nDisallow: /a\nAllow: /ab\n" + text.replace("User-agent: *\n", "", 1)
    after = before.replace("Disallow: /a\n", f"Disallow: /a\nDisallow: {rule}\n", 1)
    if not _allows(before, path):
        assert not _allows(after, path)


@settings(deadline=None)
@given(FILES, PATHS, st.sampled_from(["\r", "\r\n"]), st.sampled_from(["", "\ufeff"]))
def test_line_ends_marks_and_case_change_nothing(text: str, path: str, end: str, mark: str) -> None:
    """CR, LF and CR LF are one, a byte order mark is none, and agents have no case."""
    assert _allows(mark + text.replace("\n", end), path, "LIMPET") is _allows(text, path)


@settings(deadline=None)
@given(st.integers(0, 3), st.binary(min_size=1, max_size=40))
def test_the_cap_is_idempotent_and_the_digest_is_of_what_is_parsed(more: int, piece: bytes) -> None:
    """Storing the capped body changes neither its digest nor its meaning."""
    body = piece * (BODY_BYTES_MAX // len(piece) + more)
    kept = capped(body)
    assert len(kept) <= BODY_BYTES_MAX
    assert body.startswith(kept)
    assert capped(kept) == kept
    assert digest(body) == digest(kept) == hashlib.sha256(kept).hexdigest()


def test_the_reference_is_a_fair_judge() -> None:
    """The reference itself gives the verdict of the undisputed cases."""
    path = CASES / "robots.json"
    if not path.is_file():
        pytest.skip("The case folder does not hold robots.json; set LIMPET_CASES to the folder that does.")
    cases = [case for case in json.loads(path.read_text("utf-8"))["cases"] if case["level"] == "core"]
    small = [case for case in cases if "robots_gz_b64" not in case and len(case["robots"]) < 10_000]
    assert len(small) > 500
    for case in small:
        text = case["robots"].removeprefix("\ufeff")
        verdict = reference_allows(text, reference_token(case["user_agent"]), target(case["url"]).decode())
        assert verdict is (case["expected"] == "allow"), case["id"]


def test_differences_from_protego_are_counted_and_explained() -> None:
    """Where both are defined: whatever protego forbids and we allow, the reference allows as well."""
    rng = random.Random(9309)
    seen: Counter[str] = Counter()
    for _ in range(2_000):
        lines = [
            f"{rng.choice(['Allow', 'Disallow', 'Disallow'])}: /{''.join(rng.choices('/ab*$?', k=rng.randrange(6)))}"
            for _ in range(rng.randrange(1, 6))
        ]
        text = "User-agent: *\n" + "\n".join(lines) + "\n"
        path = "/" + "".join(rng.choices("/ab?", k=rng.randrange(8)))
        ours = _allows(text, path)
        theirs = Protego.parse(text).can_fetch(f"http://example.com{path}", "limpet")
        seen["same" if ours is theirs else "only we allow" if ours else "only protego allows"] += 1
        if ours and not theirs:
            assert reference_allows(text, "limpet", path), (text, path)
    print(dict(seen))  # noqa: T201 - the count is what this test is run with -s for
    assert seen.total() == 2_000
    assert seen["same"] > 1_800


# --- retrieval ---

ANSWERS: st.SearchStrategy[RobotsAnswer] = st.one_of(
    st.builds(
        HttpAnswer,
        status=st.sampled_from([200, 204, 301, 304, 401, 404, 429, 500, 503, 999]),
        location=st.none() | st.just(b"/r"),
        body=st.sampled_from([b"", b"User-agent: *\nDisallow: /\n", b"\xff\xfe\0"]),
        retry_after_us=st.none() | st.integers(-DAY, 40 * DAY),
    ),
    st.builds(NetworkFailure, kind=st.sampled_from(get_args(FailureKind)), nxdomain=st.booleans()),
)
STEPS = st.lists(
    st.tuples(ANSWERS, st.integers(0, 6), st.integers(-DAY, 3 * DAY), st.floats(0, 1, exclude_max=True)), max_size=20
)


@often
@given(STEPS, st.integers(-2 * DAY, 50 * DAY))
def test_only_an_answer_of_the_last_day_can_allow(
    steps: list[tuple[RobotsAnswer, int, int, float]], ask_us: int
) -> None:
    """Whatever the answers, however the clock jumps: no licence without a usable answer under 24 hours old."""
    judge, state, now_us = RobotsJudge(), RobotsState(), 100 * DAY
    usable_at: list[int] = []
    for answer, hops, passed_us, jitter in steps:
        now_us += passed_us
        step = next_step(hops, answer)
        if isinstance(step, Settled):
            state = advance(state, step, now_us, jitter)
            if step.status != "unreachable":
                usable_at.append(now_us)
            else:
                assert state.retry_at_us >= now_us + max(300_000_000, step.retry_after_us)
        gives_up(state, now_us)
    verdict = judge.license(state, "limpet", "http://example.com/x", now_us + ask_us)
    if isinstance(verdict, License) and verdict.allowed:
        assert any(0 <= now_us + ask_us - at_us < DAY for at_us in usable_at)
    elif isinstance(verdict, Wait):
        assert verdict.until_us > now_us + ask_us
    else:
        assert isinstance(verdict, License | Fetch)
