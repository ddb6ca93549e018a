"""How a command line names a crawl: by the folder it lies in, or with --config by the servers of its cluster."""

import argparse
from pathlib import Path
from typing import Final, NamedTuple

from limpet.model.errors import UsageError

NEITHER: Final = "name the crawl folder, or with --config the cluster's configuration"
BOTH: Final = "give the crawl folder or --config, not both"


class Words(NamedTuple):
    """What a verb takes beside the crawl: how it is called, how many, and in which attribute they are left."""

    name: str = ""
    least: int = 0
    most: int = 0
    attribute: str = "words"


NO_WORDS: Final = Words()


def add_naming(verb: argparse.ArgumentParser, words: Words = NO_WORDS) -> None:
    """Let `verb` take DIR or --config, and `words` after it."""
    shown = f" {words.name}" if words.name else ""
    verb.usage = f"%(prog)s (DIR | --config F){shown} [options]"
    verb.add_argument("words", nargs="*", metavar=f"DIR{shown}", help="the crawl folder; none with --config")
    verb.add_argument("--config", type=Path, metavar="F", help="the cluster's limpet.toml")
    verb.set_defaults(takes=words)


def settle(arguments: argparse.Namespace) -> None:
    """Tell DIR from the other words: `folder` (None with --config), and what `Words` says. Raises `UsageError`."""
    takes: Words = arguments.takes
    words: list[str] = arguments.words
    if arguments.config is None:
        if not words:
            raise UsageError(NEITHER)
        arguments.folder, words = Path(words[0]), words[1:]
        if len(words) > takes.most:
            raise UsageError(f"unrecognized arguments: {' '.join(words[takes.most :])}")
    else:
        arguments.folder = None
        if len(words) > takes.most:
            raise UsageError(BOTH)
    if len(words) < takes.least:
        raise UsageError(f"name {takes.name} as well")
    setattr(arguments, takes.attribute, words)
