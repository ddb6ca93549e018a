"""The classes that a ring is made of, in one place: rehearsals put in one that is broken, and must find it out."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from limpet.admission.service import Admission
from limpet.bus.sqlite import SqliteProducer
from limpet.crawlnode.exchange import Exchange
from limpet.crawlnode.health import Health
from limpet.crawlnode.robots import RobotsDesk
from limpet.crawlnode.service import CrawlNode
from limpet.crawlnode.steps import FetchSteps
from limpet.parser.service import Parser
from limpet.politeness import Governor
from limpet.reconciler.passes import Reconciler
from limpet.reconciler.recovery import Recovery
from limpet.runtime import Runner
from limpet.seen.sqlite import SqliteSeen
from limpet.urlstore.sqlite import SqliteUrlStore


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What is constructed for each part. The defaults are the real ones, and a crawl never has others."""

    store: type[SqliteUrlStore] = SqliteUrlStore
    producer: type[SqliteProducer] = SqliteProducer
    seen: Callable[[Path, Runner], SqliteSeen] = SqliteSeen
    health: type[Health] = Health
    governor: type[Governor] = Governor
    steps: type[FetchSteps] = FetchSteps
    exchange: type[Exchange] = Exchange
    robots: type[RobotsDesk] = RobotsDesk
    node: type[CrawlNode] = CrawlNode
    parser: type[Parser] = Parser
    admission: type[Admission] = Admission
    recovery: type[Recovery] = Recovery
    reconciler: type[Reconciler] = Reconciler


REAL_PARTS: Final = Parts()
