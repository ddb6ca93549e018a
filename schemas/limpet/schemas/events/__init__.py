"""The events that cross the bus: JSON Schema per topic and version, and samples that every later version must read."""

from functools import cache
from importlib import resources
from typing import Any

import msgspec


@cache
def schema(topic: str, version: int) -> dict[str, Any]:
    """The JSON Schema of one version of a topic's event. FileNotFoundError if there is none."""
    return msgspec.json.decode(_text(f"{topic}.v{version}.schema.json"), type=dict[str, Any])


def samples(topic: str, version: int) -> list[bytes]:
    """Frozen samples: payloads as they were once published, one a line. Never edited, only added to."""
    return [line.encode() for line in _text(f"{topic}.v{version}.samples.jsonl").splitlines() if line]


def _text(name: str) -> str:
    return resources.files(__name__).joinpath(name).read_text("utf-8")
