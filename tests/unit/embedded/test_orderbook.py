"""The file of orders: durable, replaced whole, read again when it changes."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from limpet.config import Facts
from limpet.embedded.folder import Folder, check_vacant
from limpet.embedded.orderbook import OrderBook
from limpet.model.errors import UsageError
from limpet.politeness.orders import NO_ORDER, NO_ORDERS, HostOrder

FACTS = Facts(crawl="0123456789abcdef", hash_seed=b"s" * 16, suffix_list_digest="d" * 64)


def paused(order: HostOrder) -> HostOrder:
    """A pause on top of what was ordered."""
    return replace(order, paused_us=9)


def test_nothing_is_ordered_without_a_file(tmp_path: Path) -> None:
    """A crawl that nobody ever gave an order for has none, and looking makes none."""
    folder = Folder.create(tmp_path / "crawl", FACTS)
    assert OrderBook(folder).look() == {}
    assert not folder.orders_file.exists()


def test_an_order_is_seen_by_every_book(tmp_path: Path) -> None:
    """A book that looked before sees the change; one host's orders leave another's alone; `NO_ORDER` ends them."""
    folder = Folder.create(tmp_path / "crawl", FACTS)
    reader, writer = OrderBook(folder), OrderBook(folder)
    assert reader.look() is NO_ORDERS
    assert writer.change("a.example", paused) == (NO_ORDER, HostOrder(paused_us=9))
    assert reader.look() == {"a.example": HostOrder(paused_us=9)}
    assert reader.look() is reader.look()
    OrderBook(folder).change("b.example", lambda order: replace(order, gap_seconds=3.0))
    assert reader.look() == {"a.example": HostOrder(paused_us=9), "b.example": HostOrder(gap_seconds=3.0)}
    writer.change("a.example", lambda _: NO_ORDER)
    assert reader.look() == reader.latest == {"b.example": HostOrder(gap_seconds=3.0)}


def test_an_order_that_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    """The same order twice is one order."""
    folder = Folder.create(tmp_path / "crawl", FACTS)
    book = OrderBook(folder)
    book.change("a.example", paused)
    before = folder.orders_file.stat()  # a new file has another inode; reading moves no more than the access time
    assert book.change("a.example", paused) == (HostOrder(paused_us=9), HostOrder(paused_us=9))
    after = folder.orders_file.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def damage_torn(path: Path) -> None:
    """Half of it."""
    path.write_bytes(path.read_bytes()[:20])


def damage_directory(path: Path) -> None:
    """Something else of that name."""
    path.unlink()
    path.mkdir()


def damage_pipe(path: Path) -> None:
    """Something that would block its reader."""
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("damage", [damage_torn, damage_directory, damage_pipe])
def test_a_damaged_file_is_named_and_the_last_orders_hold(tmp_path: Path, damage: object) -> None:
    """One line with the path and the way out; who has to go on keeps what it knew; nothing is written over it."""
    folder = Folder.create(tmp_path / "crawl", FACTS)
    book = OrderBook(folder)
    book.change("a.example", paused)
    assert book.look()
    assert callable(damage)
    damage(folder.orders_file)
    for fresh in (book, OrderBook(folder)):
        with pytest.raises(UsageError, match=r"hosts\.json is damaged .*give them again"):
            fresh.look()
    assert book.kept() == {"a.example": HostOrder(paused_us=9)}
    with pytest.raises(UsageError, match="is damaged"):
        book.change("b.example", paused)
    assert OrderBook(folder).kept() == {}


def test_a_draft_that_was_left_behind_is_no_order(tmp_path: Path) -> None:
    """A death between draft and rename leaves the old orders; and a folder with orders is one of ours."""
    folder = Folder.create(tmp_path / "crawl", FACTS)
    book = OrderBook(folder)
    book.change("a.example", paused)
    (folder.path / "hosts.json.tmp").write_bytes(b"{")
    assert OrderBook(folder).look() == {"a.example": HostOrder(paused_us=9)}
    folder.path.joinpath("facts.json").unlink()
    check_vacant(folder.path)
