"""A crawl as the verbs read it, wherever it lies: in a folder, or on the servers of a cluster.

What is listed comes piece by piece, so that no listing needs memory for all of it. A cluster gives rows in the order of
its token ring, a folder in that of admission, shard by shard.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Protocol

import msgspec

from limpet.assembly.hostjudge import HostNow
from limpet.config import Facts
from limpet.embedded.capturelog import Entry
from limpet.embedded.sums import Sum
from limpet.model.lifecycle import State
from limpet.model.outcome import Outcome
from limpet.politeness.orders import HostOrder
from limpet.robots import Oddity
from limpet.urlstore import AuthorityRow, HostRow, ParseOutput, UrlRow


class Unparsed(msgspec.Struct, frozen=True):
    """A stored page that the parser gave up on: nobody has seen its links."""

    url: str
    reason: str


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is stored of one URL. `via`: URL of the page it was found on, "" for none."""

    row: UrlRow
    via: str
    outcomes: list[Outcome]
    outputs: list[ParseOutput]
    authority: AuthorityRow | None
    host: HostRow | None


class CrawlView(Protocol):
    """One crawl, read without disturbing whoever works on it. Everything raises `LimpetError`."""

    @property
    def name(self) -> str:
        """How a command line names the crawl: `DIR`, or `--config F`."""
        ...

    @property
    def facts(self) -> Facts:
        """Facts of the crawl."""
        ...

    # -- listings ----------------------------------------------------------------------------------------------------
    def rows(self, states: Collection[State] | None = None) -> Iterator[UrlRow]:
        """Rows of the given states, of all states for None."""
        ...

    def captures(self) -> Iterator[Entry]:
        """Everything that was fetched. Of a folder by time, and with it what left the queue without a request."""
        ...

    def unparsed(self) -> Iterator[Unparsed]:
        """Pages whose parse waits for a person."""
        ...

    def damages(self) -> list[str]:
        """Damage that recovery found in segments and kept: `SEGMENT at byte N`."""
        ...

    # -- sums --------------------------------------------------------------------------------------------------------
    def sums(self, by: str) -> dict[str, Sum]:
        """URLs, fetches and bytes by `host`, `status`, `mime` or `reason`."""
        ...

    def rejected(self) -> Counter[str]:
        """How many links each rule turned away."""
        ...

    def odd_robots(self) -> dict[Oddity, int]:
        """How many servers have a robots.txt that cannot be read as one, by what it is."""
        ...

    # -- one URL -----------------------------------------------------------------------------------------------------
    def known(self, url: str) -> Known | None:
        """What is stored of a canonical URL; None when it has no row."""
        ...

    def rejected_by(self, url: str) -> list[str]:
        """Rules that are known to have turned a canonical URL away."""
        ...

    # -- hosts -------------------------------------------------------------------------------------------------------
    def hosts(self) -> Iterator[HostNow]:
        """Every host that was met or of which something is ordered: of a folder the busiest first."""
        ...

    def host(self, host: str) -> HostNow | None:
        """One host; None when it was neither met nor anything ordered of it."""
        ...

    def met(self, host: str) -> bool:
        """Whether the crawl has met a host."""
        ...

    @property
    def running(self) -> bool:
        """Whether anybody is at work who obeys orders."""
        ...

    # -- orders ------------------------------------------------------------------------------------------------------
    def order(self, host: str) -> HostOrder:
        """What an operator ordered of a host."""
        ...

    def change_order(self, host: str, edit: Callable[[HostOrder], HostOrder]) -> tuple[HostOrder, HostOrder]:
        """Replace what is ordered of `host`, durably; what was and what is. Who runs obeys within seconds."""
        ...

    def retry(self, states: Collection[State]) -> int:
        """Rows in `states` become due again, and pages that could not be parsed are parsed again; their number."""
        ...

    @property
    def resumed_by(self) -> str:
        """What has to be run for due URLs to be fetched; "" when that goes on by itself."""
        ...
