"""From references as text to links: resolved, canonical, distinct, bounded."""

from collections.abc import Iterable
from itertools import islice
from typing import Final, NamedTuple

from limpet.model.events import Link
from limpet.model.links import LinkKind
from limpet.model.urls import canonicalize_all

REFERENCE_BYTES_MAX: Final = 8_192
"""Longest reference looked at, as written."""
URL_BYTES_MAX: Final = 4_096
"""Longest URL handed on: above the bound of admission, which counts what it rejects; low enough to bound a message."""
_BATCH: Final = 500

Reference = tuple[str, LinkKind, bool]
"""A reference as text, its kind, whether it is nofollow."""


class Resolved(NamedTuple):
    """Distinct links, at most `links_max`, and what was left out: `unusable` are no web resources, `overlong` too
    long; `surplus` is the number of links beyond the bound that were seen before the reading stopped.
    """

    links: list[Link]
    unusable: int
    overlong: int
    surplus: int


def resolve(references: Iterable[Reference], base: str, links_max: int) -> Resolved:
    """The links that `references` name against `base`, in order; one is nofollow when every mention of it is.

    Works in batches and stops after the one that passes `links_max`, so that a long base cannot be multiplied at will.
    """
    flags: dict[tuple[str, LinkKind], bool] = {}
    unusable = overlong = 0
    waiting = iter(references)
    while len(flags) <= links_max and (batch := list(islice(waiting, _BATCH))):
        targets = canonicalize_all([text for text, _, _ in batch], base)
        for target, (_, kind, nofollow) in zip(targets, batch, strict=True):
            if target is None:
                unusable += 1
            elif len(target) > URL_BYTES_MAX:
                overlong += 1
            else:
                flags[target, kind] = nofollow and flags.get((target, kind), True)
    links = [Link(*key, nofollow) for key, nofollow in flags.items()]
    return Resolved(links[:links_max], unusable, overlong, max(0, len(links) - links_max))
