"""The due index: what can be claimed, when, and which queue has something first."""

from limpet.runtime.sqlitetx import Reader, Tx
from limpet.urlstore.types import Queue


class DueIndex:
    """Entries of the due index, and the earliest of each queue.

    `queues` is asked many times a second, so answers are kept and only queues that a durable transaction touched are
    looked up again.
    """

    def __init__(self) -> None:
        self._queues: dict[int, Queue] = {}
        self._pending: set[int] = set()  # touched by the open transaction
        self._touched: set[int] = set()
        self._loaded = False

    def add(self, tx: Tx, authority_id: int, lane: int, due_us: int, url_id: int) -> None:
        """Enter a row."""
        tx.run("due_insert", (authority_id, lane, due_us, url_id))
        self.touch(tx, authority_id)

    def remove(self, tx: Tx, authority_id: int, lane: int, due_us: int, url_id: int) -> None:
        """Take a row's entry out."""
        tx.run("due_delete", (authority_id, lane, due_us, url_id))
        self.touch(tx, authority_id)

    def touch(self, tx: Tx, authority_id: int) -> None:
        """This queue's earliest entry may change with this transaction."""
        self._pending.add(authority_id)
        tx.then(self._settle)

    def forget(self) -> None:
        """Everything may have changed."""
        self._loaded = False

    def queues(self, reader: Reader) -> list[Queue]:
        """Every queue with an entry."""
        if not self._loaded:
            self._load(reader)
        for authority_id in self._touched:
            self._look_up(reader, authority_id)
        self._touched.clear()
        return list(self._queues.values())

    def _settle(self) -> None:
        self._touched |= self._pending
        self._pending.clear()

    def _load(self, reader: Reader) -> None:
        self._queues.clear()
        self._touched.clear()
        for authority_id, authority, host, soon_us, new_us, *_ in reader.all("queues"):
            due_us = earliest(soon_us, new_us)
            if due_us is not None:
                self._queues[authority_id] = Queue(authority=authority, host=host, due_us=due_us)
        self._loaded = True

    def _look_up(self, reader: Reader, authority_id: int) -> None:
        row = reader.one("queue_next", (authority_id,))
        due_us = earliest(row[2], row[3]) if row else None
        if row is None or due_us is None:
            self._queues.pop(authority_id, None)
        else:
            self._queues[authority_id] = Queue(authority=row[0], host=row[1], due_us=due_us)


def earliest(soon_us: int | None, new_us: int | None) -> int | None:
    """The earlier of the two lanes' first entries."""
    if soon_us is None or new_us is None:
        return soon_us if new_us is None else new_us
    return min(soon_us, new_us)
