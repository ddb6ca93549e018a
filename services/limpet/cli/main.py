"""The `limpet` command: one verb, one exit code, and one line for whatever goes wrong."""

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final

from limpet.cli.arguments import PROGRAM, VERBS, parse_arguments
from limpet.cli.printing import plain
from limpet.model.errors import LimpetError, UsageError

EXIT_USAGE: Final = 2
EXIT_CANNOT_GO_ON: Final = 4
EXIT_INTERRUPTED: Final = 130
EXIT_BROKEN_PIPE: Final = 141  # what a shell shows for a filter that was closed early


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; the exit code (see `limpet --help`)."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that lacks a character is no reason to fail
    try:
        arguments = parse_arguments(sys.argv[1:] if argv is None else argv)
        return _function(arguments.verb)(arguments)
    except UsageError as error:
        return _complain(error, EXIT_USAGE)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the exit's flush finds a reader
        return EXIT_BROKEN_PIPE
    except (LimpetError, OSError) as error:
        return _complain(error, EXIT_CANNOT_GO_ON)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        if type(error).__module__ == "sqlite3":  # named so, because loading it would slow down every --help
            return _complain(error, EXIT_CANNOT_GO_ON)
        raise


def _function(verb: str) -> Callable[[argparse.Namespace], int]:
    """The function behind a verb; its module loads only now, so that help and errors are quick."""
    function: Callable[[argparse.Namespace], int] = getattr(import_module(f"limpet.cli.{VERBS[verb]}"), verb)
    return function


def _complain(error: BaseException, code: int) -> int:
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    sys.stderr.write(f"{PROGRAM}: {plain(text)}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
