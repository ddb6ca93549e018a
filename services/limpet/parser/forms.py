"""Every form of link that is read, with its kind: the registry from which ``docs/links.md`` is drawn.

Each form has an example that names ``/x``; the tests read it and expect exactly that link, of exactly that kind, and
nothing while the crawl does not want it. So a form that is listed works, and one that works is listed.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from limpet.model.links import LinkKind

_NAVIGATION, _REDIRECT, _REQUISITE = LinkKind.NAVIGATION, LinkKind.REDIRECT, LinkKind.REQUISITE
_ALTERNATE, _FEED, _SITEMAP = LinkKind.ALTERNATE, LinkKind.FEED, LinkKind.SITEMAP


class Source(StrEnum):
    """What a form stands in."""

    PAGE = "text/html"
    STYLE_SHEET = "text/css"
    LINK_FIELD = "Link field"
    REFRESH_FIELD = "Refresh field of a page"
    SITEMAP = "application/xml"
    SITEMAP_LIST = "text/plain"
    FEED = "application/rss+xml"
    JSON_FEED = "application/feed+json"


class Form(NamedTuple):
    """One form. `example` is a fragment of its source that names ``/x``."""

    name: str
    kind: LinkKind
    example: str
    source: Source = Source.PAGE

    @property
    def wanted_by(self) -> str:
        """Which crawls look for it: every one, or those with `requisites` or `extras`."""
        if self.kind is _REQUISITE:
            return "requisites"
        in_every_page = self.source in (Source.PAGE, Source.REFRESH_FIELD) and self.kind in (_NAVIGATION, _REDIRECT)
        return "every crawl" if in_every_page and not self.name.startswith("link") else "extras"


def _tag(name: str, kind: LinkKind, attribute: str, more: str = "") -> Form:
    return Form(f"{name}[{attribute}]", kind, f'<{name} {more}{attribute}="/x">')


def _link(rel: str, kind: LinkKind, more: str = "") -> Form:
    return Form(f"link[rel={rel}]", kind, f'<link rel="{rel}" {more}href="/x">')


def _preload(destination: str) -> Form:
    return Form(f"link[rel=preload][as={destination}]", _REQUISITE, f'<link rel=preload as="{destination}" href="/x">')


_FOR_READERS: Final = (
    _tag("a", _NAVIGATION, "href"),
    Form("a[xlink:href]", _NAVIGATION, '<svg><a xlink:href="/x"></a></svg>'),
    _tag("area", _NAVIGATION, "href"),
    _tag("frame", _NAVIGATION, "src"),
    _tag("iframe", _NAVIGATION, "src"),
    Form("meta[http-equiv=refresh]", _REDIRECT, '<meta http-equiv=refresh content="5; url=/x">'),
)
_RELATIONS: Final = (
    _link("canonical", _ALTERNATE),
    _link("amphtml", _ALTERNATE),
    _link("alternate", _ALTERNATE),
    Form("link[rel=alternate][hreflang]", _ALTERNATE, '<link rel=alternate hreflang=cs href="/x">'),
    *(
        Form(f"link[rel=alternate][type={kind}]", _FEED, f'<link rel=alternate type="{kind}" href="/x">')
        for kind in ("application/rss+xml", "application/atom+xml", "application/feed+json")
    ),
    _link("feed", _FEED),
    _link("sitemap", _SITEMAP),
    _link("next", _NAVIGATION),
    _link("prev", _NAVIGATION),
    _link("previous", _NAVIGATION),
)
_PAGE_REQUISITES: Final = (
    *(
        _link(rel, _REQUISITE)
        for rel in (
            "stylesheet",
            "icon",
            "shortcut icon",
            "apple-touch-icon",
            "apple-touch-icon-precomposed",
            "mask-icon",
            "manifest",
            "modulepreload",
        )
    ),
    *(_preload(destination) for destination in ("image", "style", "script", "font")),
    Form("link[imagesrcset]", _REQUISITE, '<link rel=preload as=image imagesrcset="/x 2x">'),
    _tag("img", _REQUISITE, "src"),
    Form("img[srcset]", _REQUISITE, '<img srcset="/x 1x">'),
    *(_tag("img", _REQUISITE, attribute) for attribute in ("data-src", "data-original", "data-lazy-src")),
    Form("img[data-srcset]", _REQUISITE, '<img data-srcset="/x 640w">'),
    Form("img[data-lazy-srcset]", _REQUISITE, '<img data-lazy-srcset="/x 640w">'),
    _tag("source", _REQUISITE, "src"),
    Form("source[srcset]", _REQUISITE, '<picture><source srcset="/x"></picture>'),
    *(_tag("source", _REQUISITE, attribute) for attribute in ("data-src", "data-original", "data-lazy-src")),
    Form("source[data-srcset]", _REQUISITE, '<source data-srcset="/x 2x">'),
    Form("source[data-lazy-srcset]", _REQUISITE, '<source data-lazy-srcset="/x 2x">'),
    Form("script[src]", _REQUISITE, '<script src="/x"></script>'),
    *(_tag("video", _REQUISITE, attribute) for attribute in ("src", "poster", "data-src", "data-poster")),
    *(_tag("audio", _REQUISITE, attribute) for attribute in ("src", "data-src")),
    _tag("track", _REQUISITE, "src"),
    _tag("object", _REQUISITE, "data"),
    _tag("embed", _REQUISITE, "src"),
    _tag("input", _REQUISITE, "src", "type=image "),
    *(
        Form(f"{name}[{attribute}]", _REQUISITE, f'<svg><{name} {attribute}="/x#part"/></svg>')
        for name in ("image", "use", "feimage")
        for attribute in ("href", "xlink:href")
    ),
    _tag("image", _REQUISITE, "src"),
    Form("*[background]", _REQUISITE, '<table background="/x">'),
    Form("*[style]", _REQUISITE, '<p style="background: url(/x)">'),
    Form("style", _REQUISITE, "<style>p { background: url(/x) }</style>"),
)
_JSON: Final = '{"version": "https://jsonfeed.org/version/1.1", "items": [{"url": "/x"}]}'
_ELSEWHERE: Final = (
    Form("url()", _REQUISITE, "p { background: url(/x) }", Source.STYLE_SHEET),
    Form('url("")', _REQUISITE, 'p { background: url("/x") }', Source.STYLE_SHEET),
    Form("@import", _REQUISITE, '@import "/x";', Source.STYLE_SHEET),
    Form("@import url()", _REQUISITE, "@import url(/x) print;", Source.STYLE_SHEET),
    Form("url=", _REDIRECT, "5; url=/x", Source.REFRESH_FIELD),
    Form("rel=stylesheet", _REQUISITE, "</x>; rel=stylesheet", Source.LINK_FIELD),
    Form("rel=preload", _REQUISITE, "</x>; rel=preload; as=font", Source.LINK_FIELD),
    Form("rel=icon", _REQUISITE, "</x>; rel=icon", Source.LINK_FIELD),
    Form("rel=canonical", _ALTERNATE, '</x>; rel="canonical"', Source.LINK_FIELD),
    Form("rel=alternate", _ALTERNATE, '</x>; rel="alternate"; hreflang="cs"', Source.LINK_FIELD),
    Form("rel=next", _NAVIGATION, "</x>; rel=next", Source.LINK_FIELD),
    Form("rel=prev", _NAVIGATION, "</x>; rel=prev", Source.LINK_FIELD),
    Form("urlset/url/loc", _NAVIGATION, "<urlset><url><loc>/x</loc></url></urlset>", Source.SITEMAP),
    Form("sitemapindex/sitemap/loc", _SITEMAP, "<sitemapindex><sitemap><loc>/x</loc></sitemap>", Source.SITEMAP),
    Form("xhtml:link[rel=alternate]", _ALTERNATE, "<urlset><xhtml:link rel='alternate' href='/x'/>", Source.SITEMAP),
    Form("a line", _NAVIGATION, "http://site.test/x", Source.SITEMAP_LIST),
    Form("item/link", _NAVIGATION, "<rss><item><link>/x</link></item></rss>", Source.FEED),
    Form("entry/link[href]", _NAVIGATION, "<feed><entry><link href='/x'/></entry></feed>", Source.FEED),
    Form("items[].url", _NAVIGATION, _JSON, Source.JSON_FEED),
    Form("items[].external_url", _NAVIGATION, _JSON.replace('"url"', '"external_url"'), Source.JSON_FEED),
)  # fmt: skip
FORMS: Final = _FOR_READERS + _RELATIONS + _PAGE_REQUISITES + _ELSEWHERE

NOT_FOLLOWED: Final = (
    '<form action="/x"></form>',
    '<form method=get action="/x"><input type=submit formaction="/x"><button formaction="/x">go</button></form>',
    '<input type=text src="/x">',
    '<link rel=preconnect href="/x">',
    '<link rel=dns-prefetch href="/x">',
    '<link rel=prefetch href="/x">',
    '<link rel=alternate type="application/json+oembed" href="/x">',
    '<link rel=pingback href="/x">',
    '<link rel=preload as=fetch href="/x">',
    '<link href="/x">',
    '<meta property="og:image" content="/x">',
    '<blockquote cite="/x">',
    '<img longdesc="/x">',
    '<p data-src="/x">',
    '<script>let url = "/x"; document.write("<img src=/x>")</script>',
    "<!-- <img src='/x'> -->",
    "<template><img src='/x'></template>",
    "<a ping='/x'>",
    "<p style='background: url(#x)'>",
    "<svg><use href='#x'></svg>",
    "<img src='data:image/gif;base64,/x'>",
)
"""What looks like a link and is none to us, in whatever crawl."""


def table() -> str:
    """The forms as a table in Markdown."""
    rows = [f"| `{form.name}` | {form.source} | {form.kind} | {form.wanted_by} |" for form in FORMS]
    return "\n".join(("| Form | In | Kind | Looked for by |", "|---|---|---|---|", *rows))


def not_followed() -> str:
    """What is not followed, as a list in Markdown."""
    return "\n".join(f"- `{markup}`" for markup in NOT_FOLLOWED)
