"""The candidates of a ``srcset``: all of them, since an archive does not know the screen it will be shown on.

Source: https://html.spec.whatwg.org/#parse-a-srcset-attribute
"""

import re
from collections.abc import Iterator
from typing import Final

_URL: Final = re.compile(r"[\t\n\f\r ,]*+([^\t\n\f\r ]++)")
_DESCRIPTOR_STOP: Final = re.compile(r"[,(]")


def candidates(srcset: str) -> Iterator[str]:
    """The references in `srcset`, in order; descriptors are not judged. Never raises; linear time."""
    position = 0
    while found := _URL.match(srcset, position):
        reference, position = found[1], found.end()
        bare = reference.rstrip(",")
        yield bare
        if bare == reference:
            position = _after_descriptors(srcset, position)


def _after_descriptors(srcset: str, position: int) -> int:
    """Behind the comma that ends a candidate; commas in parentheses do not."""
    while stop := _DESCRIPTOR_STOP.search(srcset, position):
        if stop[0] == ",":
            return stop.end()
        closed = srcset.find(")", stop.end())
        position = closed + 1 if closed >= 0 else len(srcset)
    return len(srcset)
