"""Real servers for a test file: up while it runs, skipped by name where a program is missing."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from servers import Service

S = TypeVar("S", bound=Service)


@contextmanager
def serving(found: S, *, keep: bool = False) -> Iterator[S]:
    """`found`, up; down afterwards unless it is kept."""
    for program in found.programs:
        if shutil.which(program) is None:
            pytest.skip(f"{found.name} takes {program}, which is not installed here")
    try:
        found.up()
        yield found
    finally:
        if not keep:
            found.down()
