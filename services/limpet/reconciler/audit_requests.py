"""What a request says of us: who we are, in every one, and nothing else."""

import re
from collections.abc import Iterator
from typing import Final

from limpet.config import Facts
from limpet.reconciler.kinds import AuditKind as Kind

FORBIDDEN: Final = frozenset(
    {
        b"referer",
        b"cookie",
        b"cookie2",
        b"authorization",
        b"proxy-authorization",
        b"origin",
        b"from",
        b"forwarded",
        b"x-forwarded-for",
    }
)
_VERSION: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # RFC 9110 §10.1.5: product = token ["/" product-version]


class RequestCheck:
    """Judges requests of one crawl."""

    def __init__(self, facts: Facts) -> None:
        token, contact = facts.agent.encode(), facts.contact.encode()
        comment = rb" \(\+" + re.escape(contact) + rb"\)" if contact else b""
        self._agent = re.compile(re.escape(token) + b"/" + _VERSION + comment)

    def faults(self, block: bytes, url: str) -> Iterator[tuple[Kind, str]]:
        """What is wrong with the request in a request record of `url`."""
        head = block.partition(b"\r\n\r\n")[0]
        first, *lines = head.split(b"\r\n")
        method, _, rest = first.partition(b" ")
        if method != b"GET":
            yield Kind.NOT_GET, f"the method is {_shown(method)}"
        fields = [(name.strip().lower(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
        hosts = [value for name, value in fields if name == b"host"]
        scheme = url.partition("://")[0].encode("ascii", "replace")
        asked = scheme + b"://" + b", ".join(hosts) + rest.rpartition(b" ")[0]
        if asked != url.encode("ascii", "replace"):
            yield Kind.WRONG_REQUEST, f"it asks for {_shown(asked)}"
        agents = [value for name, value in fields if name == b"user-agent"]
        if len(agents) != 1 or not self._agent.fullmatch(agents[0]):
            yield Kind.WRONG_AGENT, f"User-Agent is {_shown(b', '.join(agents)) if agents else 'missing'}"
        for name, _ in fields:
            if name in FORBIDDEN:
                yield Kind.FORBIDDEN_HEADER, f"{_shown(name)} was sent"


def _shown(value: bytes) -> str:
    return repr(value[:200].decode("latin-1"))
