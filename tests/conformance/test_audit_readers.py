"""The auditor's readers over the public robots.txt cases: none accuses the matcher, and every difference has a name."""

import base64
import gzip
import json
import os
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from limpet.model.urls import InvalidUrl, canonicalize
from limpet.reconciler.audit_google import is_installed
from limpet.reconciler.audit_matcher import Opinion, Readers
from limpet.reconciler.audit_protego import UNEXPLAINED
from limpet.robots import parse

CASES = Path(os.environ.get("LIMPET_CASES") or Path(__file__).parents[2] / ".." / "shared" / "cases")


def _judged() -> list[tuple[dict[str, Any], bool, Opinion]]:
    """Case, the matcher's verdict, the readers' opinion; of canonical URLs and proper product tokens."""
    cases: list[dict[str, Any]] = []
    for name in ("robots.json", "robots_extra.json"):
        if not (CASES / name).is_file():
            pytest.skip(f"The case folder does not hold {name}; set LIMPET_CASES to the folder that does.")
        cases += json.loads((CASES / name).read_text("utf-8"))["cases"]
    fitting = [case for case in cases if re.fullmatch("[A-Za-z_-]+", case["user_agent"]) and _is_canonical(case["url"])]
    assert len(fitting) > 400
    return [(case, parse(_body(case)).allows(case["user_agent"], case["url"]), _opinion(case)) for case in fitting]


def _is_canonical(url: str) -> bool:
    try:
        return canonicalize(url) == url
    except InvalidUrl:
        return False


def _body(case: dict[str, Any]) -> bytes:
    packed = case.get("robots_gz_b64")
    return gzip.decompress(base64.b64decode(packed)) if packed else str(case["robots"]).encode()


def _opinion(case: dict[str, Any]) -> Opinion:
    body = _body(case)
    return Readers(case["user_agent"], lambda _digest: body).opinion("digest", case["url"])


def test_no_reader_accuses_the_matcher_and_what_protego_says_alone_has_a_name() -> None:
    """What the crawler would fetch is no violation to the plain reader or Google's parser, on any public case."""
    judged = _judged()
    assert [case["id"] for case, allowed, opinion in judged if allowed and opinion.forbids] == []
    reasons = Counter(opinion.reason for _, _, opinion in judged if opinion.reason)
    assert reasons[UNEXPLAINED] == 0
    if is_installed():
        assert all(opinion.google is not None for _, _, opinion in judged)


AGENT_LINES = (
    b"User-agent: *",
    b"User-agent: limpet",
    b"User-agent: x",
    b"User-agent: x, *",
    b"User_agent: *",
    b"Useragent *",
)
RULE_LINES = (
    b"Disallow: /",
    b"Disallow:",
    b"Allow: /",
    b"Disallow: /a",
    b"Allow: /a/b$",
    b"Desallow: /b",
    b"Disallow: /*b",
)
ODD = (
    b"\0",
    b"\xc2\xa0",
    b"\xa0",
    b"\xe2\x80\x8b",
    b"\xc2\x85",
    b"\x1f",
    b"*",
    b"/",
    b";",
    b",",
    b"$",
    b"%00",
    b"#",
    b":",
)


def test_no_reader_accuses_the_matcher_of_files_with_odd_bytes() -> None:
    """Odd bytes anywhere, at the ends of values above all, make no fetch a violation, nor a delay too short."""
    rng = random.Random(9309)
    for _ in range(3_000):
        chosen = [
            rng.choice(rng.choice((AGENT_LINES, RULE_LINES, (b"Crawl-delay: 5",)))) for _ in range(rng.randint(1, 7))
        ]
        body = b"\n".join([_spoilt(line, rng) for line in chosen])
        readers = Readers("limpet", {"digest": body}.__getitem__)
        rules = parse(body)
        for path in ("", "a", "a/b", "b", "a%00", "a%C2%A0"):
            url = f"http://example.com/{path}"
            assert not (rules.allows("limpet", url) and readers.opinion("digest", url).forbids), (body, url)
        assert (rules.crawl_delay("limpet") or 0) * 1e6 >= readers.delay_us("digest"), body


def _spoilt(line: bytes, rng: random.Random) -> bytes:
    at = rng.choice((len(line), len(line), line.find(b":") + 1, rng.randint(0, len(line))))
    return line if rng.random() < 0.4 else line[:at] + rng.choice(ODD) + line[at:]
