"""Was a fetch licensed? By an archived copy, of its own authority, at most a day old, that allows the URL."""

from typing import Final

import msgspec

from limpet.reconciler.audit_answers import Answer
from limpet.reconciler.audit_evidence import Evidence, Exchange
from limpet.reconciler.audit_matcher import Readers
from limpet.reconciler.audit_protego import sentence_of
from limpet.reconciler.kinds import AuditKind as Kind
from limpet.reconciler.report import Collector

COPY_LIFE_US: Final = 86_400_000_000
"""RFC 9309 §2.4: no longer than 24 hours."""

SETTLE_US: Final = 60_000_000
"""A copy's day begins when its verdict was stored, which comes after the answer was archived."""

SLACK_US: Final = 5_000
REDIRECTS_MAX: Final = 5  # RFC 9309 §2.3.1.2
HOP_US_MAX: Final = 3_600_000_000
"""Longest wait of a hop for the permit of the host it leads to."""

BRANCHES_MAX: Final = 8
"""Answers of one URL that are taken into account as the next hop: another chain may have led there as well."""

ANSWERS_MAX: Final = 64
"""Answers looked at to follow one chain, whatever a site makes of it."""

COPIES_MAX: Final = 64
"""Copies remembered of one authority."""


class Copy(msgspec.Struct, frozen=True):
    """A licence in waiting. `settled_us` is the end of the last answer that it took."""

    digest: str
    settled_us: int


class _Known(msgspec.Struct):
    """What one authority's robots.txt answered so far."""

    copies: list[Copy] = []
    refusals: list[Answer] = []


class Licences:
    """The licences of one host's authorities, learned and used in the order of time."""

    def __init__(self, evidence: Evidence, readers: Readers, out: Collector) -> None:
        self._evidence = evidence
        self._readers = readers
        self._out = out
        self._known: dict[str, _Known] = {}
        self._left = 0

    def learn(self, exchange: Exchange) -> None:
        """A robots.txt was asked for; redirects are followed through the archive.

        What a redirect led to counts as the robots.txt of the place where it lies only if that is its name there.
        """
        if exchange.url != f"{exchange.authority}/robots.txt":
            return
        self._left = ANSWERS_MAX
        known = self._known.setdefault(exchange.authority, _Known())
        again_us = self._evidence.asked_again_us(exchange.url, exchange.start_us)
        until_us = again_us if again_us is not None else exchange.end_us + HOP_US_MAX * REDIRECTS_MAX
        for answer in self._evidence.answers(exchange.url, exchange.start_us, exchange.start_us + 1, 1):
            self._follow(known, answer, until_us, 0)

    def check(self, exchange: Exchange) -> Copy | None:
        """Judge a fetch; the copy that licensed it, if one did."""
        copy = self._copy(exchange)
        if copy is None:
            kind, detail = self._why_none(exchange)
            self._find(kind, exchange, detail)
            return None
        age_us = exchange.start_us - copy.settled_us
        if age_us >= COPY_LIFE_US + SETTLE_US:
            self._find(Kind.EXPIRED_COPY, exchange, f"the copy was {age_us / 3.6e9:.1f} hours old")
        self._judge(exchange, copy)
        return copy

    def _follow(self, known: _Known, answer: Answer, until_us: int, hops: int) -> None:
        """Settle what an answer means, hop by hop. Of several answers that may be the next hop, all count."""
        self._left -= 1
        if answer.meaning != "redirect":
            if answer.licenses:
                known.copies = [*known.copies[1 - COPIES_MAX :], Copy(answer.digest, answer.end_us)]
            else:
                known.refusals = [*known.refusals[1 - COPIES_MAX :], answer]
            return
        hop_us = min(until_us, answer.end_us + HOP_US_MAX)
        nexts: list[Answer] = []
        if answer.target and hops < REDIRECTS_MAX and self._left > 0:
            nexts = self._evidence.answers(answer.target, answer.end_us - SLACK_US, hop_us, BRANCHES_MAX)
        for following in nexts:
            self._follow(known, following, until_us, hops + 1)
        if not nexts:
            known.refusals = [*known.refusals[1 - COPIES_MAX :], answer]

    def _copy(self, exchange: Exchange) -> Copy | None:
        known = self._known.get(exchange.authority, _Known())
        latest_us = exchange.start_us + SLACK_US
        fitting = [copy for copy in known.copies if copy.digest == exchange.digest and copy.settled_us <= latest_us]
        return max(fitting, key=lambda copy: copy.settled_us, default=None)

    def _why_none(self, exchange: Exchange) -> tuple[Kind, str]:
        if not exchange.digest:
            return Kind.NO_COPY, "it names no copy of robots.txt"
        known = self._known.get(exchange.authority, _Known())
        refusal = next((answer for answer in known.refusals if exchange.digest in answer.false_digests), None)
        if refusal is not None:
            return Kind.UNREACHABLE_LICENCE, f"status {refusal.status} of {refusal.url} means complete disallow"
        own = f"{exchange.authority}/robots.txt"
        later = self._evidence.served(exchange.digest, own)
        if later is not None and later.licenses:
            return Kind.LATER_COPY, f"{own} only came {(later.end_us - exchange.start_us) / 1e6:.3f} s later"
        other = self._evidence.served(exchange.digest)
        if other is not None and other.url != own:
            return Kind.OTHER_AUTHORITY, f"its copy was served by {other.url}"
        last = f"; the last answer was status {known.refusals[-1].status}" if known.refusals else ""
        return Kind.NO_COPY, f"no answer of {own} is the copy {exchange.digest[:16]}…{last}"

    def _judge(self, exchange: Exchange, copy: Copy) -> None:
        opinion = self._readers.opinion(copy.digest, exchange.url)
        self._out.checked["licences"] += 1
        if opinion.forbids:
            rule = f"forbidden by {opinion.rule!r}" if not opinion.plain else "forbidden"
            self._find(Kind.DISALLOWED, exchange, f"{rule}: {opinion.shown()}")
        elif opinion.protego is False:
            by = f"the rule {opinion.rule!r}" if opinion.rule else "no rule"
            what = f"{opinion.reason}: {sentence_of(opinion.reason)}"
            self._out.note(
                Kind.READINGS_DIFFER, exchange.url, f"protego forbids it, read literally {by} applies; {what}"
            )
            self._out.sum_up(Kind.READINGS_DIFFER, 1, f"fetches that protego alone forbids, {what}")

    def newest(self, authority: str) -> str:
        """The digest of the last copy that an authority's robots.txt made, "" if it made none."""
        known = self._known.get(authority)
        return known.copies[-1].digest if known is not None and known.copies else ""

    def _find(self, kind: Kind, exchange: Exchange, detail: str) -> None:
        self._out.find(kind, exchange.url, f"{detail} ({exchange.where or 'an outcome without a record'})")
