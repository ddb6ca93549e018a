"""The `limpet` command: one verb, one exit code, and one line for whatever goes wrong."""

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Final, TextIO

from limpet.cli.arguments import PROGRAM, VERBS, parse_arguments
from limpet.cli.printing import CannotPrintError, flush, plain
from limpet.model.errors import LimpetError, UsageError
from limpet.model.openfiles import OUT_OF_FILES, too_many_files

EXIT_USAGE: Final = 2
EXIT_CANNOT_GO_ON: Final = 4
EXIT_INTERRUPTED: Final = 130
EXIT_BROKEN_PIPE: Final = 141  # what a shell shows for a filter that was closed early


def nothing() -> None:
    """Nothing to do when the verb begins."""


def main(argv: Sequence[str] | None = None, *, at_work: Callable[[], None] = nothing) -> int:
    """Run one command line; the exit code (see `limpet --help`). `at_work` is called when its verb begins."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that lacks a character is no reason to fail
    code = _outcome(argv, at_work)
    try:
        sys.stderr.flush()
    except OSError:
        _leave_to_the_void(sys.stderr)  # nobody is there to be told; the exit code tells
    return code


def _outcome(argv: Sequence[str] | None, at_work: Callable[[], None]) -> int:
    """The exit code, whatever goes wrong."""
    try:
        code = _run(argv, at_work)
        flush()
    except UsageError as error:
        return _complain(error, EXIT_USAGE)
    except BrokenPipeError:
        _leave_to_the_void(sys.stdout)
        return EXIT_BROKEN_PIPE
    except (LimpetError, OSError) as error:
        return _complain(error, EXIT_CANNOT_GO_ON)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        if type(error).__module__ == "sqlite3":  # named so, because loading it would slow down every --help
            return _complain(error, EXIT_CANNOT_GO_ON)
        raise
    return code


def _run(argv: Sequence[str] | None, at_work: Callable[[], None]) -> int:
    """The verb's exit code. What is left in the stream after --help is flushed too, so that its reader may be gone."""
    try:
        arguments = parse_arguments(sys.argv[1:] if argv is None else argv)
    except SystemExit:
        flush()
        raise
    function = _function(arguments.verb)
    at_work()
    return function(arguments)


def _function(verb: str) -> Callable[[argparse.Namespace], int]:
    """The function behind a verb; its module loads only now, so that help and errors are quick."""
    function: Callable[[argparse.Namespace], int] = getattr(
        import_module(f"limpet.cli.{VERBS[verb]}"), verb.replace("-", "_")
    )
    return function


def _complain(error: BaseException, code: int) -> int:
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.errno in OUT_OF_FILES:
        text = too_many_files()
    if isinstance(error, CannotPrintError):
        _leave_to_the_void(sys.stdout)
    with suppress(OSError):
        sys.stderr.write(f"{PROGRAM}: {plain(text)}\n")
    return code


def _leave_to_the_void(stream: TextIO) -> None:
    """What is still buffered goes nowhere, so that the flush at the exit cannot fail on it."""
    void = os.open(os.devnull, os.O_WRONLY)
    os.dup2(void, stream.fileno())
    os.close(void)


if __name__ == "__main__":
    sys.exit(main())
