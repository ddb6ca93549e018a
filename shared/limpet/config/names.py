"""Who we say we are: the product token that robots.txt is matched on, and where a site owner reaches us."""

import re
from typing import Final

from limpet.model.errors import UsageError

_AGENT: Final = re.compile(r"[A-Za-z_-]{1,64}", re.ASCII)
_CONTACT: Final = re.compile(r"[!-'*-~]{3,200}", re.ASCII)  # visible ASCII without parentheses: it goes into a comment


def check_agent(agent: str, where: str) -> None:
    """Raise `UsageError` naming `where` unless `agent` is a product token."""
    if not _AGENT.fullmatch(agent):
        raise UsageError(
            f"{where} {agent!r} is no product token: use letters, - and _ (robots.txt matches on it, RFC 9309 §2.2.1)"
        )


def check_contact(contact: str, where: str) -> None:
    """Raise `UsageError` naming `where` unless `contact` is empty, a mail address or an http(s) URL."""
    if contact and not (
        _CONTACT.fullmatch(contact) and ("@" in contact or contact.startswith(("http://", "https://")))
    ):
        raise UsageError(f"{where} {contact!r} reaches nobody: write a mail address or an http(s) URL")
