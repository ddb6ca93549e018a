"""A seen shard on a real server that is killed, frozen, wiped, filled, or whose replies are lost."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from itertools import count, cycle
from pathlib import Path

import msgspec
import pytest

from contract.valkeys import Kept, SeenServer, open_shard
from limpet.clock import SystemClock
from limpet.model.errors import UsageError
from limpet.receipts import Action, Transport, Verdict
from limpet.seen import PatientSeen, SeenUnavailable, rebuild
from limpet.seen.redis import Address, Bounds, ghosts
from servers import CutAfter, Proxy, cut, drop, forward

QUICK = Bounds(seconds_max=1.0, commands_max=50, arguments_max=7)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeenServer]:
    found = SeenServer(tmp_path_factory.mktemp("valkey"))
    yield found
    found.end()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[SeenServer]:
    found = SeenServer(tmp_path)
    yield found
    found.end()


@pytest.fixture
def crawl(server: SeenServer) -> str:
    return server.new_crawl()


def fps(size: int, seed: int = 1) -> list[bytes]:
    """Fingerprints as real ones are: evenly spread."""
    chance = random.Random(seed)
    return [chance.randbytes(16) for _ in range(size)]


# -- death ------------------------------------------------------------------------------------------------------------


def test_a_killed_server_loses_marks_at_most_and_invents_none(server: SeenServer, crawl: str) -> None:
    """After kill -9 and a restart the same adapter goes on; a caller never notices an idle connection that died."""

    async def main() -> None:
        shard = open_shard(server, crawl)
        await shard.mark(fps(300))
        server.valkey.restart(server.node)
        assert not any(await shard.present(fps(300, seed=2)))
        await shard.mark(fps(300))
        assert all(await shard.present(fps(300)))
        await shard.close()

    asyncio.run(main())


def test_a_server_killed_in_the_middle_of_marks_invents_none(other: SeenServer, crawl: str) -> None:
    """Kill -9 at several moments of an endless refill: the caller hears of it, and asks a server that came back."""

    async def main() -> None:
        kept = Kept()
        shard = open_shard(other, crawl, kept=kept, capacity=100_000, bounds=QUICK)
        for seed in range(10, 14):
            marking = asyncio.ensure_future(rebuild(shard, cycle(fps(20_000, seed=seed)), batch=500))
            await asyncio.wait({marking}, timeout=0.02 * (seed - 9))
            other.node.kill()
            with pytest.raises(SeenUnavailable):
                await marking
            other.valkey.restart(other.node)
            assert not any(await shard.present(fps(2_000, seed=seed + 100)))
            await rebuild(shard, fps(2_000, seed=seed))
            assert all(await shard.present(fps(2_000, seed=seed)))
        assert all(one.verdict is Verdict.UNKNOWN for one in kept.unclean)
        await shard.close()

    asyncio.run(main())


def test_a_server_that_became_a_replica_is_unavailable_for_marks(other: SeenServer, crawl: str) -> None:
    """READONLY is no lost mark: the partition waits until its server takes writes again."""

    async def main() -> None:
        kept = Kept()
        shard = open_shard(other, crawl, kept=kept)
        await shard.mark(fps(10))
        other.ask("REPLICAOF", "127.0.0.1", "1")
        with pytest.raises(SeenUnavailable, match="it says READONLY"):
            await shard.mark(fps(10, seed=2))
        assert {one.action for one in kept.unclean} == {Action.RETRY}
        other.ask("REPLICAOF", "NO", "ONE")
        await shard.mark(fps(10, seed=2))
        assert all(await shard.present([*fps(10), *fps(10, seed=2)]))
        await shard.close()

    asyncio.run(main())


def test_a_dead_shard_stops_its_own_partition_only(server: SeenServer, other: SeenServer, crawl: str) -> None:
    """Questions and marks raise within the bound, by the shard's number; the other shard answers meanwhile."""

    async def main() -> None:
        kept = Kept()
        dead = open_shard(other, crawl, number=7, kept=kept, bounds=QUICK)
        well = open_shard(server, crawl, number=8)
        await dead.mark(fps(3))
        other.node.kill()
        for _ in range(3):
            with pytest.raises(SeenUnavailable, match="seen shard 7 does not answer") as error:
                await dead.present(fps(3))
            assert error.value.shard == 7
            with pytest.raises(SeenUnavailable):
                await dead.mark(fps(3))
            await well.mark(fps(3))
            assert all(await well.present(fps(3)))
        assert {receipt.transport for receipt in kept.unclean} <= {Transport.UNREACHABLE, Transport.DISCONNECTED}
        assert {receipt.action for receipt in kept.unclean} == {Action.RETRY}
        assert {receipt.target for receipt in kept.unclean} == {"seen/7"}
        other.valkey.restart(other.node)
        await dead.mark(fps(3))
        assert all(await dead.present(fps(3)))
        await dead.close()
        await well.close()

    asyncio.run(main())


def test_a_partition_waits_for_its_shard_and_the_others_do_not(
    server: SeenServer, other: SeenServer, crawl: str
) -> None:
    """Killed under its partition: marks wait, the other partition goes on, and after the restart all is marked."""

    async def main() -> None:
        down = open_shard(other, crawl, number=1, bounds=QUICK)
        well = open_shard(server, crawl, number=2)
        await down.check()
        other.node.kill()
        patient = PatientSeen(down, SystemClock(), lambda: False, pause_seconds_first=0.01)
        waiting = asyncio.ensure_future(patient.mark(fps(20)))
        for seed in range(20):
            await well.mark(fps(20, seed=seed))
            assert all(await well.present(fps(20, seed=seed)))
        assert not waiting.done()
        assert patient.waiting_since_us > 0
        other.valkey.restart(other.node)
        await waiting
        assert patient.waiting_since_us == 0
        assert all(await patient.present(fps(20)))
        await patient.close()
        await well.close()

    asyncio.run(main())


def test_a_frozen_server_is_given_up_in_bounded_time(other: SeenServer, crawl: str) -> None:
    """No reply within the bound is `SeenUnavailable`; what was asked then is not taken for a later answer."""

    async def main() -> None:
        kept = Kept()
        shard = open_shard(other, crawl, kept=kept, bounds=QUICK)
        await shard.mark(fps(20))
        other.node.freeze()
        began = asyncio.get_running_loop().time()
        with pytest.raises(SeenUnavailable, match="no answer within 1 s"):
            await shard.present(fps(20))
        assert asyncio.get_running_loop().time() - began < 4 * QUICK.seconds_max
        assert kept.unclean[-1].transport is Transport.TIMED_OUT
        assert kept.unclean[-1].verdict is Verdict.UNKNOWN
        other.node.thaw()
        assert await shard.present([*fps(5), *fps(5, seed=2)]) == [True] * 5 + [False] * 5
        await shard.close()

    asyncio.run(main())


def test_a_question_that_is_given_up_leaves_no_reply_to_the_next(other: SeenServer, crawl: str) -> None:
    """Cancelled while the server is silent: the next question gets its own answer."""

    async def main() -> None:
        shard = open_shard(other, crawl)
        await shard.mark(fps(20))
        other.node.freeze()
        asked = asyncio.ensure_future(shard.present(fps(20)))
        _, pending = await asyncio.wait({asked}, timeout=0.1)
        assert pending
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        other.node.thaw()
        assert await shard.present(fps(20, seed=2)) == [False] * 20
        await shard.close()

    asyncio.run(main())


@pytest.mark.parametrize("how", ["data lost", "flushed"])
def test_a_wiped_shard_is_refilled_from_rows_while_the_crawl_marks(other: SeenServer, crawl: str, how: str) -> None:
    """Wiped, it answers absent; `rebuild` and fresh marks meet; at the end everything is present and nothing else."""

    async def main() -> None:
        shard = open_shard(other, crawl, capacity=100_000)
        rows, fresh = fps(3_000), fps(500, seed=2)
        await shard.mark(rows)
        if how == "flushed":
            other.ask("FLUSHALL", "SYNC")
        else:
            other.lose_everything()
        assert not any(await shard.present(rows))

        async def crawling() -> None:
            for begin in range(0, len(fresh), 20):
                await shard.mark(fresh[begin : begin + 20])
                assert all(await shard.present(fresh[: begin + 20]))

        async def source() -> AsyncIterator[bytes]:
            for row in rows:
                yield row

        counted, _ = await asyncio.gather(rebuild(shard, source(), batch=128), crawling())
        assert counted == len(rows)
        assert all(await shard.present([*rows, *fresh]))
        assert not any(await shard.present(fps(3_000, seed=3)))
        assert await rebuild(shard, rows) == len(rows)
        await shard.close()

    asyncio.run(main())


# -- partial failure --------------------------------------------------------------------------------------------------


def test_a_full_server_loses_marks_and_says_which(other: SeenServer, crawl: str) -> None:
    """Out of memory is an error of each command: marks go missing, none is invented, the receipt asks for a rebuild."""

    async def main() -> None:
        kept = Kept()
        shard = open_shard(other, crawl, kept=kept, capacity=10_000_000)
        await shard.mark(fps(100))
        used = int(other.ask("INFO", "memory").split(b"used_memory:")[1].split(b"\r\n")[0])
        other.ask("CONFIG", "SET", "maxmemory", str(used + 60_000))
        many = fps(5_000, seed=2)
        await shard.mark(many)
        lost = [receipt for receipt in kept.unclean if receipt.operation == "seen.mark"]
        assert {failure.code for receipt in lost for failure in receipt.failures} == {"OOM"}
        assert {receipt.action for receipt in lost} == {Action.REBUILD}
        assert {receipt.verdict for receipt in lost} == {Verdict.COMPLETED_REPAIR_PENDING}
        assert {receipt.repair for receipt in lost} == {"rebuild-seen/0/1"}
        assert all(receipt.succeeded + receipt.failed == receipt.commands for receipt in lost)
        present = await shard.present(many)
        assert 0 < sum(present) < len(many)
        failed = sum(receipt.failed for receipt in lost)
        assert failed <= len(many) - sum(present) <= failed * 7  # fingerprints of a command
        assert all(await shard.present(fps(100)))
        assert not any(await shard.present(fps(3_000, seed=3)))
        other.ask("CONFIG", "SET", "maxmemory", "0")
        await rebuild(shard, many)
        assert all(await shard.present(many))
        await shard.close()

    asyncio.run(main())


def test_a_key_of_another_kind_fails_alone(server: SeenServer, crawl: str) -> None:
    """WRONGTYPE concerns one command: its fingerprints are absent, all others are answered."""

    async def main() -> None:
        kept = Kept()
        shard = open_shard(server, crawl, kept=kept, capacity=32 * 200 * 20)  # 20 sets
        marks = fps(200)
        await shard.mark(marks)
        server.ask("SET", f"seen:{crawl}:1:0:3", "strange")
        await shard.mark(marks)
        present = await shard.present(marks)
        assert present == [number != 3 for number, _ in shard.layout.places(marks)]
        assert [(one.operation, one.failed, one.action) for one in kept.unclean] == [
            ("seen.mark", kept.unclean[0].failed, Action.REBUILD),
            ("seen.present", kept.unclean[1].failed, Action.CACHE_MISS),
        ]
        assert {failure.code for one in kept.unclean for failure in one.failures} == {"WRONGTYPE"}
        await shard.close()

    asyncio.run(main())


def test_lost_replies_are_unknown_and_asking_again_is_harmless(server: SeenServer, crawl: str) -> None:
    """The server did it, nobody heard: `SeenUnavailable` with the whole pipeline ambiguous; then all is present."""

    async def main() -> None:
        kept = Kept()
        async with Proxy(server.address.host, server.address.port) as proxy:
            address = Address("127.0.0.1", proxy.port)
            shard = open_shard(server, crawl, kept=kept, address=address, bounds=QUICK)
            await shard.check()
            for seed, replies, transport in ((1, drop, Transport.TIMED_OUT), (2, cut, Transport.DISCONNECTED)):
                proxy.replies, before = replies, len(kept.unclean)
                with pytest.raises(SeenUnavailable):
                    await shard.mark(fps(40, seed=seed))
                receipt = kept.unclean[before]
                assert receipt.transport is transport
                assert receipt.ambiguous is not None
                assert (receipt.ambiguous.begin, receipt.ambiguous.end) == (0, receipt.commands)
                proxy.replies = forward
                assert all(await shard.present(fps(40, seed=seed)))
                await shard.mark(fps(40, seed=seed))
                assert all(await shard.present(fps(40, seed=seed)))
            await shard.close()

    asyncio.run(main())


def test_replies_up_to_the_break_are_known_and_the_rest_is_not(server: SeenServer, crawl: str) -> None:
    """The receipt says how many answers had come; a second attempt on a new connection completes the work."""

    async def main() -> None:
        kept = Kept()
        async with Proxy(server.address.host, server.address.port) as proxy:
            shard = open_shard(server, crawl, kept=kept, address=Address("127.0.0.1", proxy.port))
            await shard.check()
            proxy.replies = CutAfter(4 * 10)  # ten times ":1\r\n"
            await shard.mark(fps(30))
            (receipt,) = kept.unclean
            assert receipt.transport is Transport.DISCONNECTED
            assert receipt.succeeded == 10
            assert receipt.ambiguous is not None
            assert (receipt.ambiguous.begin, receipt.ambiguous.end) == (10, receipt.commands)
            assert receipt.attempt.endswith("/1")
            assert kept.recorder.recent[-1].attempt.endswith("/2")
            assert kept.recorder.recent[-1].acquired_before
            assert all(await shard.present(fps(30)))
            await shard.close()

    asyncio.run(main())


@pytest.mark.parametrize("what", ["the first reply is lost", "a reply comes twice", "garbage"])
def test_replies_out_of_step_are_never_believed(server: SeenServer, crawl: str, what: str) -> None:
    """A present answer that belongs to another question would be a lost URL."""
    absent = b"*1\r\n:0\r\n"

    def tamper(piece: bytes) -> tuple[bytes, bool]:
        instead = {"the first reply is lost": b"", "a reply comes twice": absent * 2, "garbage": b"?!\r\n"}[what]
        return piece.replace(absent, instead, 1), True

    async def main() -> None:
        async with Proxy(server.address.host, server.address.port) as proxy:
            shard = open_shard(server, crawl, address=Address("127.0.0.1", proxy.port), bounds=QUICK)
            marked, not_marked = fps(20), fps(20, seed=2)
            asked = [fp for pair in zip(not_marked, marked, strict=True) for fp in pair]
            await shard.mark(marked)
            assert await shard.present(asked) == [False, True] * 20
            proxy.replies = tamper
            with pytest.raises(SeenUnavailable):
                await shard.present(asked)
            proxy.replies = forward
            assert await shard.present(asked) == [False, True] * 20
            await shard.close()

    asyncio.run(main())


# -- the server's settings, layout and epochs -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "value", "complaint"),
    [
        ("maxmemory-policy", "allkeys-lru", "maxmemory-policy is allkeys-lru"),
        ("set-max-intset-entries", "128", "set-max-intset-entries is 128"),
    ],
)
def test_an_unfit_server_is_refused_at_the_start(
    other: SeenServer, crawl: str, setting: str, value: str, complaint: str
) -> None:
    """The line names shard, server, setting and remedy."""

    async def main() -> None:
        other.ask("CONFIG", "SET", setting, value)
        shard = open_shard(other, crawl, number=5)
        with pytest.raises(UsageError, match=rf"seen shard 5 at 127.0.0.1:\d+: .*{complaint}.*: set"):
            await shard.check()
        with pytest.raises(UsageError):
            await shard.mark(fps(1))
        await shard.close()

    asyncio.run(main())


def test_another_layout_is_refused_and_another_epoch_is_empty(server: SeenServer, crawl: str) -> None:
    """A change of the capacity needs a new epoch, which knows nothing; the old one can be removed."""

    async def main() -> None:
        old = open_shard(server, crawl, capacity=1_000_000)
        stranger = open_shard(server, server.new_crawl())
        await old.mark(fps(100))
        await stranger.mark(fps(100))
        wider = open_shard(server, crawl, capacity=2_000_000)
        with pytest.raises(UsageError, match=r"it holds .*\"sets\":157.*, not .*\"sets\":313"):
            await wider.check()
        new = open_shard(server, crawl, capacity=2_000_000, epoch=2)
        assert not any(await new.present(fps(100)))
        await new.mark(fps(50))
        assert await new.drop_other_epochs() > 1
        assert await new.drop_other_epochs() == 0
        assert sum(await new.present(fps(100))) == 50
        assert not any(await old.present(fps(100)))
        assert all(await stranger.present(fps(100)))
        for shard in (old, stranger, wider, new):
            await shard.close()

    asyncio.run(main())


def test_a_server_with_a_password_lets_in_who_knows_it(other: SeenServer, crawl: str) -> None:
    """Without it the shard is unavailable, and says why; the password shows nowhere, nor does any key."""

    async def main() -> None:
        other.ask("CONFIG", "SET", "requirepass", "open-sesame")
        kept = Kept()
        shards = [
            open_shard(other, crawl, kept=kept, address=Address.parse(text + str(other.address)))
            for text in ("", "redis://:wrong-sesame@", "redis://:open-sesame@")
        ]
        for shard, code in zip(shards, ("NOAUTH", "WRONGPASS"), strict=False):
            with pytest.raises(SeenUnavailable, match=code):
                await shard.present(fps(3))
        await shards[2].mark(fps(3))
        assert all(await shards[2].present(fps(3)))
        for receipt in [*kept.unclean, *kept.recorder.recent]:
            text = msgspec.json.encode(receipt).decode()
            for secret in ("sesame", "seen:", str(other.address), fps(1)[0].hex()):
                assert secret not in text
        for shard in shards:
            await shard.close()

    asyncio.run(main())


def test_a_server_that_hides_its_settings_is_used(other: SeenServer, crawl: str) -> None:
    """Managed servers refuse CONFIG: what cannot be seen is not judged, and marks work."""

    async def main() -> None:
        other.ask("ACL", "SETUSER", "limited", "on", ">word", "~seen:*", "+@all", "-config", "-info")
        shard = open_shard(other, crawl, address=Address.parse(f"redis://limited:word@{other.address}"))
        await shard.mark(fps(3))
        assert all(await shard.present(fps(3)))
        await shard.close()

    asyncio.run(main())


# -- size -------------------------------------------------------------------------------------------------------------


def test_sets_stay_arrays_of_integers_at_full_capacity(server: SeenServer, crawl: str) -> None:
    """At the stated capacity every set is an `intset`, and the survey says how full the shard is."""

    async def main() -> None:
        shard = open_shard(server, crawl, capacity=32 * 20_000, bounds=Bounds())
        assert (await shard.survey()).fill == 0
        marks = fps(20_000)
        await rebuild(shard, marks[:15_000])
        survey = await shard.survey()
        assert (survey.members, survey.alert) == (15_000, False)
        await rebuild(shard, marks)
        survey = await shard.survey()
        assert (survey.members, survey.intset_share, survey.alert) == (20_000, 1.0, True)
        assert survey.members_a_set_max < 512
        assert survey.bytes_a_member < 12
        await shard.close()

    asyncio.run(main())


def test_pipelines_and_commands_are_bounded_and_counted(server: SeenServer, crawl: str) -> None:
    """A large batch becomes chunks; each leaves a receipt; nothing exceeds its bound."""

    async def main() -> None:
        kept = Kept()
        shard = open_shard(server, crawl, kept=kept, capacity=32 * 200 * 40)  # 40 sets
        await shard.mark(fps(4_000))
        receipts = [one for one in kept.recorder.recent if one.operation == "seen.mark"]
        assert [one.chunk for one in receipts] == [number for number, _ in zip(count(1), receipts, strict=False)]
        assert {one.chunks for one in receipts} == {len(receipts)}
        assert len({one.job for one in receipts}) == 1
        assert all(one.classes == {"SADD": one.commands} for one in receipts)
        assert kept.recorder.maxima.commands_a_pipeline <= 50
        assert kept.recorder.maxima.arguments_a_command <= 7 + 1
        assert sum(one.commands for one in receipts) * 7 >= 4_000
        assert all(one.server.startswith(("valkey ", "redis ")) for one in receipts)
        assert not kept.unclean
        await shard.close()

    asyncio.run(main())


def test_marks_without_rows_are_found(server: SeenServer, crawl: str) -> None:
    """What the rows do not explain, and nothing else; a part of the sets at a time adds up to the same."""

    async def main() -> None:
        shard = open_shard(server, crawl, capacity=32 * 200 * 90)
        rows = fps(3_000)
        assert await ghosts(shard, rows) == []
        await shard.mark(rows)
        assert await ghosts(shard, rows) == []
        expected = sorted(shard.layout.places(rows[-50:]))
        assert sorted(await ghosts(shard, rows[:-50])) == expected
        parts = [await ghosts(shard, rows[:-50], range(begin, min(90, begin + 7))) for begin in range(0, 90, 7)]
        assert sorted(place for part in parts for place in part) == expected
        await shard.close()

    asyncio.run(main())
