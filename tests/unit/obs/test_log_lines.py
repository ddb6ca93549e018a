import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from limpet.obs import REDACTED, LineFormatter, configure_logging, log_event


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[Path]:
    """A log of its own; the process's logging is put back afterwards."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    path = tmp_path / "log"
    configure_logging(logging.INFO, path)
    yield path
    for handler in root.handlers:
        if handler not in before:
            handler.close()
    root.handlers[:] = before
    root.setLevel(level)
    logging.captureWarnings(capture=False)


def test_an_event_is_one_line_whatever_its_values_hold(log_file: Path) -> None:
    """A value from the web cannot start a line of its own, nor drive a terminal."""
    log_event(logging.getLogger("limpet.t"), logging.INFO, "fetched", host="a\r\nFAKE line\x1b[2J", status=200)
    lines = log_file.read_text().splitlines()
    assert len(lines) == 1
    assert "\x1b" not in lines[0]
    assert lines[0].endswith(' limpet.t fetched host="a\\r\\nFAKE line\\x1b[2J" status=200')


@pytest.mark.parametrize("name", ["token", "hash_seed", "webhook", "proxy_password", "Authorization"])
def test_a_secret_field_is_never_written(log_file: Path, name: str) -> None:
    """A field whose name says secret shows a placeholder."""
    log_event(logging.getLogger("limpet.t"), logging.INFO, "started", **{name: "hunter2"})
    text = log_file.read_text()
    assert "hunter2" not in text
    assert REDACTED in text


def test_an_exception_stays_on_its_line(log_file: Path) -> None:
    """A traceback is folded into a field, so a log is read line by line."""
    try:
        int("bad\nthing")
    except ValueError:
        logging.getLogger("limpet.t").exception("died")
    lines = log_file.read_text().splitlines()
    assert len(lines) == 1
    assert "ValueError: invalid literal" in lines[0]


def test_long_values_are_cut() -> None:
    """A value's length is bounded, so a hostile header cannot fill the disk through the log."""
    record = logging.LogRecord("n", logging.INFO, "p", 1, "x" * 100_000, None, None)
    assert len(LineFormatter().format(record)) < 600
