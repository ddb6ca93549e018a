"""Says at the end of a run how many crash points were walked."""

import logging
from collections.abc import Iterator

import pytest

from crash.ledger import LEDGER


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """See pytest: called once, after the last test."""
    lines = LEDGER.lines()
    if lines:
        terminalreporter.section("rehearsed: a death or a fault, then a restart, then the checkers")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Thousands of lives log the same few lines."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
