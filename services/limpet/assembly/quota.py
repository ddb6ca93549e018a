"""A crawl without a limit of pages."""


class Unlimited:
    """No limit."""

    def take(self) -> bool:
        """See `Quota.take`."""
        return True

    def give_back(self) -> None:
        """See `Quota.give_back`."""
