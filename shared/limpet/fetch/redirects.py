"""Where a redirect points, from the raw bytes of its Location field."""

import re
from typing import Final

import ada_url

from limpet.fetch.port import Head

REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})  # 300 and 304 carry no target to follow

_LOCATION_BYTES_MAX: Final = 65_536
_BEYOND_ASCII: Final = re.compile(rb"[\x80-\xff]")


def redirect_target(url: str, head: Head) -> str | None:
    """The absolute URL that the redirect `head`, the answer to `url`, points to; None when it points nowhere usable.

    Bytes beyond ASCII are percent-encoded as they are, without a guess at their charset: the server wrote them and
    will know them again. Blanks and the rest follow the WHATWG rules. The scheme is whatever the server said, and a
    fragment or userinfo is still there: admission judges and canonicalizes it like any link.
    """
    value = head.get(b"location")
    if head.status not in REDIRECT_STATUSES or not value or len(value) > _LOCATION_BYTES_MAX:
        return None
    text = _BEYOND_ASCII.sub(lambda match: b"%%%02X" % match[0][0], value).decode("ascii")
    try:
        return ada_url.join_url(url, text)
    except ValueError:
        return None
