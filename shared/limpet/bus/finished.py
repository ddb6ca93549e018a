"""Which received messages are finished, and how far a committed offset may move because of it."""


class Finished:
    """One log as one consumer sees it. Offsets are received in ascending order and may leave gaps.

    A commit is two steps, so that a failed one changes nothing: `target` says where to, `moved` that it is durable.
    """

    def __init__(self, committed: int) -> None:
        self.committed = committed
        self._received: list[int] = []  # and not committed
        self._finished: set[int] = set()  # and not committed

    def receive(self, offsets: list[int]) -> None:
        """These were handed out."""
        self._received += offsets

    def finish(self, offset: int) -> None:
        """This one needs no more work. One that was never received says that everything before it is settled too."""
        if offset >= self.committed:
            self._finished.add(offset)

    def target(self) -> int:
        """The offset to commit: past contiguous finished work, never back."""
        if not self._finished:
            return self.committed
        open_ = next((offset for offset in self._received if offset not in self._finished), None)
        below = self._finished if open_ is None else {offset for offset in self._finished if offset < open_}
        return max(self.committed, max(below) + 1) if below else self.committed

    def moved(self, upto: int) -> int:
        """`upto` is committed; the number of received messages that it covers."""
        if upto <= self.committed:
            return 0
        before = len(self._received)
        self.committed = upto
        self._received = [offset for offset in self._received if offset >= upto]
        self._finished = {offset for offset in self._finished if offset >= upto}
        return before - len(self._received)

    def covers(self, upto: int) -> int:
        """How many received messages lie before `upto`."""
        return sum(offset < upto for offset in self._received)
