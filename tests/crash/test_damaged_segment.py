"""Damage inside a dead writer's segment is no torn tail: what was acknowledged behind it is kept."""

import gzip
import zlib

from crash.evidence import Evidence
from crash.rehearsal import Rehearsal
from crash.world import small_web
from limpet.testing.death import ScriptedDeath


def test_a_flipped_bit_costs_its_own_record_and_no_other() -> None:
    """Recovery cuts torn tails only; records that outcomes name stay, with their index lines, and somebody is told."""
    with Rehearsal.of(small_web()) as rehearsal:
        assert rehearsal.live(ScriptedDeath("fetch.complete.after", 10)).ending == "killed"
        rehearsal.lose("kill")
        opened = next(path for path in rehearsal.disk.snapshot() if path.name.endswith(".open"))
        for path in rehearsal.disk.snapshot():
            if path.name.endswith(".settled"):
                rehearsal.disk.remove(path)  # a full scan, so that recovery meets the damage
        size = rehearsal.disk.size(opened)
        at = size // 3
        rehearsal.disk.overwrite(opened, at, bytes([rehearsal.disk.read(opened, at, 1)[0] ^ 1]))
        assert rehearsal.live().ending == "done"
        sealed = opened.with_name(opened.name.removesuffix(".open"))
        assert rehearsal.disk.size(sealed) >= size
        index = rehearsal.disk.read(sealed.with_name(f"{sealed.name}.cdxj"), 0, 1_000_000)
        assert index.count(b"\n") >= 8
        assert sum(not _is_whole(rehearsal.evidence(), fact.place) for fact in rehearsal.evidence().facts) <= 1


def _is_whole(evidence: Evidence, place: tuple[str, int, int] | None) -> bool:
    if place is None:
        return True
    name, offset, length = place
    try:
        return bool(gzip.decompress(evidence.segments[name][offset : offset + length]))
    except (OSError, EOFError, zlib.error):
        return False
