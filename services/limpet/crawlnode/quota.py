"""How many pages a crawl may still send, as a crawl node asks for it."""

from typing import Protocol


class Quota(Protocol):
    """Pages that this crawl may still send; shared between its workers."""

    def take(self) -> bool:
        """One page permit; False = none is left now."""
        ...

    def give_back(self) -> None:
        """A permit that was not used for a page."""
        ...
