"""The auditor's readers over the public robots.txt cases: none accuses the matcher, and every difference has a name."""

import base64
import gzip
import json
import os
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
