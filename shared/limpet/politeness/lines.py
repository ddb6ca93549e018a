"""Hosts that wait for a key they share stand in line, so that the next one is called and thousands need not ask.

A line is first come, first served. Whoever is at its head is called when the key can start something again; a host that
is called and then sends nothing passes the turn on.
"""

import heapq
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from limpet.politeness.keys import Key

CALL_EVERY_US_MIN: Final = 1_000


class Waiter(Protocol):
    """What stands in line. `parked`: the key it waits for; `called`: the key whose turn it has."""

    parked: str
    called: str


W = TypeVar("W", bound=Waiter)


class Lines(Generic[W]):
    """The lines of all keys of one process."""

    def __init__(self) -> None:
        self._lines: dict[str, tuple[Key, deque[W]]] = {}
        self._alarms: list[tuple[int, str]] = []
        self._armed: dict[str, int] = {}

    def park(self, key: Key, waiter: W, at_us: int) -> None:
        """Stand at the end of `key`'s line; its head is called from `at_us` on."""
        if waiter.parked == key.name:
            return
        waiter.parked, waiter.called = key.name, ""
        self._lines.setdefault(key.name, (key, deque()))[1].append(waiter)
        self._arm(key.name, at_us)

    def leave(self, waiter: W) -> None:
        """Give up a place in line."""
        waiter.parked = ""

    def freed(self, name: str, at_us: int) -> None:
        """The key `name` may be able to start something at `at_us`."""
        if name in self._lines:
            self._arm(name, at_us)

    def waiting(self, name: str) -> bool:
        """Whether anybody stands in `name`'s line."""
        return name in self._lines

    def others_first(self, name: str, waiter: W) -> bool:
        """Whether somebody else is at the head of `name`'s line."""
        found = self._lines.get(name)
        if found is None:
            return False
        line = found[1]
        while line and line[0].parked != name:
            line.popleft()
        return bool(line) and line[0] is not waiter

    def next_us(self) -> int | None:
        """When somebody is to be called."""
        while self._alarms and self._armed.get(self._alarms[0][1]) != self._alarms[0][0]:
            heapq.heappop(self._alarms)
        return self._alarms[0][0] if self._alarms else None

    def call(self, now_us: int, blocked_us: Callable[[Key], int]) -> list[W]:
        """The heads of the lines whose time has come; `blocked_us` tells how long a key stays blocked yet."""
        called: list[W] = []
        while (at_us := self.next_us()) is not None and at_us <= now_us:
            _, name = heapq.heappop(self._alarms)
            del self._armed[name]
            waiter = self._call_line(name, now_us, blocked_us)
            if waiter is not None:
                called.append(waiter)
        return called

    def _call_line(self, name: str, now_us: int, blocked_us: Callable[[Key], int]) -> W | None:
        key, line = self._lines[name]
        while line and line[0].parked != name:
            line.popleft()
        if not line:
            del self._lines[name]
            return None
        us = blocked_us(key)
        if us > 0:
            self._arm(name, now_us + us)
            return None
        waiter = line.popleft()
        waiter.parked, waiter.called = "", name
        if line:
            self._arm(name, now_us + max(key.interval_us, CALL_EVERY_US_MIN))
        else:
            del self._lines[name]
        return waiter

    def _arm(self, name: str, at_us: int) -> None:
        armed = self._armed.get(name)
        if armed is None or at_us < armed:
            self._armed[name] = at_us
            heapq.heappush(self._alarms, (at_us, name))
