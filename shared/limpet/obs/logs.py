"""Logging set-up: `2026-01-02T03:04:05.678Z INFO limpet.worker fetched host=example.org status=200`.

Everything of the web that reaches a log is hostile: control characters are escaped, so that no value can start a line
of its own or drive a terminal, and long values are cut. Fields whose name says secret are never written.
"""

import logging
import time
from pathlib import Path
from typing import Final

REDACTED: Final = "REDACTED"
VALUE_CHARS_MAX: Final = 400
_SECRET_WORDS: Final = ("token", "secret", "seed", "password", "authorization", "cookie", "webhook")
_FIELDS: Final = "limpet_fields"


class LineFormatter(logging.Formatter):
    """One record, one line. An exception is folded into a field of its line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        seconds = time.gmtime(record.created)
        stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', seconds)}.{int(record.msecs):03d}Z"
        fields: dict[str, object] = dict(getattr(record, _FIELDS, {}))
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        parts = [stamp, record.levelname, record.name, _plain(record.getMessage())]
        parts += [f"{name}={_value(name, value)}" for name, value in fields.items()]
        return " ".join(parts)


def configure_logging(level: int, path: Path | None = None) -> None:
    """Send everything from `level` up to the file at `path` (appended), or to stderr. Replaces an earlier set-up."""
    handler = logging.FileHandler(path, encoding="utf-8") if path else logging.StreamHandler()
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    logging.raiseExceptions = False  # a log that cannot be written (full disk) must not fill the terminal instead
    for noisy in ("httpx", "httpcore", "asyncio"):
        logging.getLogger(noisy).setLevel(max(level, logging.WARNING))


def log_event(logger: logging.Logger, level: int, event: str, **fields: object) -> None:
    """Log `event` with named fields."""
    logger.log(level, "%s", event, extra={_FIELDS: fields})


def _value(name: str, value: object) -> str:
    if any(word in name.lower() for word in _SECRET_WORDS):
        return REDACTED
    limit = VALUE_CHARS_MAX if name != "exception" else VALUE_CHARS_MAX * 10
    text = _plain(str(value), limit)
    return f'"{text}"' if " " in text or not text else text


def _plain(text: str, limit: int = VALUE_CHARS_MAX) -> str:
    """Printable text on one line, at most `limit` characters of the original."""
    cut = text if len(text) <= limit else text[:limit] + "…"
    if cut.isprintable():
        return cut
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in cut)
