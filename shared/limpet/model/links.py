"""What a link is to the page that bears it."""

from enum import StrEnum


class LinkKind(StrEnum):
    """Why a page names another URL; decides which rules and which scope apply to the target."""

    NAVIGATION = "navigation"
    """Something a reader may go to: anchors, areas, frames."""
    REQUISITE = "requisite"
    """Something the page needs to be shown: images, style sheets, scripts."""
    REDIRECT = "redirect"
    """Where the page itself sends its reader: ``Location``, meta refresh, ``Refresh``."""
    SITEMAP = "sitemap"
    """An entry of a sitemap, or a sitemap named by robots.txt."""
    FEED = "feed"
    """A feed that the page announces, or an entry of one."""
    ALTERNATE = "alternate"
    """The same content elsewhere: canonical, other languages, other forms."""

    __hash__ = str.__hash__  # Enum's own is written in Python, and kinds are part of the keys of every link
