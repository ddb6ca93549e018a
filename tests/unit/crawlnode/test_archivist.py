"""What a segment says of its crawl."""

import socket

import pytest

from limpet.config import Facts, ScopeFacts
from limpet.crawlnode.archive import Archivist, scope_text
from limpet.model.identity import suffix_list_digest
from limpet.testing.chance import SeededRandom
from limpet.testing.loop import SimClock, VirtualLoop
from limpet.warc import parse_fields, parse_record

FACTS = Facts(
    crawl="c1",
    hash_seed=b"a-secret-of-this-crawl",
    suffix_list_digest=suffix_list_digest(),
    agent="finder",
    contact="https://example.org/bot",
    scope=ScopeFacts(kind="domain", depth_max=3, requisites=True, exclude=("/private/", "/tmp/")),
)


def test_warcinfo_says_who_and_how_and_on_no_machine() -> None:
    """Software, standard, robots policy, User-Agent, contact, scope; neither the host's name nor the crawl's secret."""
    loop = VirtualLoop()
    archivist = Archivist(FACTS, SeededRandom(1), SimClock(loop))
    record = parse_record(archivist.warcinfo("x.warc.gz"), block_bytes_max=10_000)
    loop.close()
    said = parse_fields(record.block)
    assert said["software"].startswith("limpet/")
    assert said["conformsTo"].endswith("warc-1.1/")
    assert said["robots"].startswith("obey")
    assert said["http-header-user-agent"].startswith("finder/")
    assert said["http-header-user-agent"].endswith(" (+https://example.org/bot)")
    assert said["operator"] == "https://example.org/bot"
    assert said["scope"] == "domain; depth_max=3; requisites=True; exclude=/private/, /tmp/"
    assert socket.gethostname().encode() not in record.block
    assert FACTS.hash_seed not in record.block


@pytest.mark.parametrize(
    ("scope", "text"), [(ScopeFacts(), "host"), (ScopeFacts(kind="any", extras=True), "any; extras=True")]
)
def test_a_scope_in_words(scope: ScopeFacts, text: str) -> None:
    """What was not chosen is not said."""
    assert scope_text(scope) == text
