"""The operator's orders on disk: one small file beside the shards, replaced whole, which workers read again when it
changes.

An order is durable before it is acknowledged. Whoever gives orders takes a lock of its own, so that two orders given at
once are both kept; whoever obeys takes none.
"""

import contextlib
import fcntl
import logging
import os
import stat
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from limpet.clock import Clock
from limpet.embedded.faults import not_writable
from limpet.embedded.folder import Folder, write_durably
from limpet.model.errors import UsageError
from limpet.obs import log_event
from limpet.politeness.orders import (
    HOSTS_MAX,
    NO_ORDER,
    NO_ORDERS,
    ORDERS_BYTES_MAX,
    HostOrder,
    Orders,
    decode_orders,
    encode_orders,
)

LOCK_NAME: Final = "hosts.lock"
LOOK_SECONDS: Final = 2.0
_LOG: Final = logging.getLogger("limpet.orders")
_Stamp = tuple[int, int, int]


class OrderBook:
    """The orders of one crawl. `look` costs one stat while nothing changes."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._path = folder.orders_file
        self._stamp: _Stamp | None = None
        self._orders: Orders = NO_ORDERS

    def look(self) -> Orders:
        """The orders in force. Raises `UsageError` when the file is damaged or cannot be read."""
        stamp = self._look_at()
        if stamp != self._stamp:
            self._orders = self._read() if stamp is not None else NO_ORDERS
            self._stamp = stamp
        return self._orders

    def kept(self) -> Orders:
        """`look`, for who has to go on: while the file is damaged, the orders that were read last."""
        with contextlib.suppress(UsageError):
            return self.look()
        return self._orders

    @property
    def latest(self) -> Orders:
        """As of the last `look` that went well."""
        return self._orders

    async def watch(self, obey: Callable[[Orders], Awaitable[None]], clock: Clock) -> None:
        """Hand on what is ordered, again and again. While the file is damaged the orders that were read last hold."""
        told = ""
        while True:
            await clock.sleep(LOOK_SECONDS)
            try:
                orders = self.look()
            except UsageError as error:
                if str(error) != told:
                    told = str(error)
                    log_event(_LOG, logging.ERROR, "the orders cannot be read", reason=told)
                continue
            await obey(orders)

    def change(self, host: str, edit: Callable[[HostOrder], HostOrder]) -> tuple[HostOrder, HostOrder]:
        """Replace what is ordered of `host`, durably; what was and what is. Raises `UsageError`."""
        with self._locked():
            orders = dict(self.look())
            before = orders.get(host, NO_ORDER)
            after = edit(before)
            if after == before:
                return before, after
            orders[host] = after
            if len(orders) > HOSTS_MAX:
                raise UsageError(f"orders for more than {HOSTS_MAX:,} hosts: resume some, or narrow the scope")
            try:
                write_durably(self._path, encode_orders(orders))
            except OSError as error:
                raise not_writable(self._folder.path, error) from error
            return before, after

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            self._folder.run.mkdir(exist_ok=True)
            fd = os.open(self._folder.run / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise not_writable(self._folder.path, error) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def _look_at(self) -> _Stamp | None:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreadable(error.strerror or str(error)) from error
        return found.st_mtime_ns, found.st_ino, found.st_size

    def _read(self) -> Orders:
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe in its place must not hold us
            with open(fd, "rb") as file:  # noqa: PTH123 - of a descriptor
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    raise self._unreadable("it is not a file")
                return decode_orders(file.read(ORDERS_BYTES_MAX + 1))
        except OSError as error:
            raise self._unreadable(error.strerror or str(error)) from error
        except ValueError as error:
            raise self._unreadable(str(error)) from error

    def _unreadable(self, why: str) -> UsageError:
        return UsageError(
            f"{self._path} is damaged ({why}): it holds the orders of `limpet hosts`; restore it, or delete it and "
            "give them again"
        )
