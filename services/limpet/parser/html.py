"""A tokenizer for hostile HTML: the tags that can bear links, in one linear pass and in constant memory.

No tree is built, on purpose. Tree construction by the standard is not linear: unclosed formatting elements are cloned
into every later paragraph, so that a page of 35 KB grows to some 1.8 GB in lexbor, and nesting
alone costs quadratic time there. Links need tokens only, and tokens need no tree, so this follows the
standard's tokenizer (https://html.spec.whatwg.org/#tokenization) and the little of the tree builder that steers it:
raw text, foreign content, templates. The tests compare it with lexbor.

Input is bytes in an ASCII-compatible encoding: no such encoding uses ``<``, ``>``, quotes, ``=``, ``/``
or white space inside a longer character, so values can be decoded later, one by one.

About the patterns: single character classes are possessive and groups that repeat are atomic with
a bound, so a match never goes back and never holds more than some hundred states. Possessive *groups* are avoided
because Python 3.11.2 and others mismatch them (https://github.com/python/cpython/issues/106052).
"""

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

Tag = tuple[bytes, bytes]
"""A start tag: its name in lower case, and its attributes as written."""

LINK_TAGS: Final = frozenset({b"a", b"area", b"base", b"frame", b"iframe", b"meta"})
REQUISITE_TAGS: Final = frozenset(
    {
        b"link",
        b"img",
        b"image",
        b"source",
        b"script",
        b"video",
        b"audio",
        b"track",
        b"input",
        b"object",
        b"embed",
        b"use",
        b"feimage",
    }
)
"""Tags that bear what a page needs; of other tags only `MARKED_ATTRIBUTES` do."""
ATTRIBUTES_MAX: Final = 256
"""Attributes looked at per tag; more than any page has a use for."""

_RAW_TEXT: Final = (
    b"script", b"style", b"title", b"textarea", b"xmp", b"iframe", b"noembed", b"noframes",
)  # fmt: skip
STYLE: Final = b"style"
MARKED_ATTRIBUTES: Final = (b"style", b"background")
"""Attributes that may name a requisite on any tag."""
_FOREIGN: Final = (b"svg", b"math")
_TEMPLATE: Final = b"template"
_PLAINTEXT: Final = b"plaintext"

_SPACE: Final = rb"[\t\n\f\r ]"
_VALUE: Final = rb"""(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^\t\n\f\r >]++|)"""
_ATTRIBUTE: Final = (
    rb"(?:[\t\n\f\r /]++|[^\t\n\f\r />][^\t\n\f\r />=]*+"
    rb"(?:" + _SPACE + rb"*+=" + _SPACE + rb"*+" + _VALUE + rb"|))"
)
_PLAIN_ATTRIBUTE: Final = rb"""(?:[\t\n\f\r ]++[^\t\n\f\r />="']++="[^"]*+")"""
_ATTRIBUTES: Final = rb"(?>" + _PLAIN_ATTRIBUTE + rb"{0,40})(?>" + _ATTRIBUTE + rb"{0,100})"
_NAME: Final = rb"[A-Za-z][^\t\n\f\r />]*+"
_RUN_MAX: Final = 400
"""Tags skipped in one match."""


def _any_case(word: bytes) -> bytes:
    return b"".join(b"[%c%c]" % (byte, byte - 32) for byte in word)


def _one_of(words: Collection[bytes]) -> bytes:
    """A pattern for one of `words` in any case, as a trie, so that most tags are told apart by one letter."""
    branches = []
    for first in sorted({word[:1] for word in words if word}):
        tails = [word[1:] for word in words if word[:1] == first]
        branches.append(_any_case(first) + _one_of(tails))
    if b"" in words:
        branches.append(b"")
    return branches[0] if len(branches) == 1 else b"(?:" + b"|".join(branches) + b")"


def _names(words: Collection[bytes]) -> bytes:
    return _one_of(words) + rb"(?=[\t\n\f\r />])"


_MARKED: Final = _names(MARKED_ATTRIBUTES).replace(rb"/>])", rb"/>=])")
_HARMLESS_STYLE: Final = rb"""[\t\n\f\r ]style="[^"(&]*+\""""
"""A style that can hold no ``url()``, which is most of them."""
_UNMARKED_ATTRIBUTES: Final = (
    rb"(?>(?:" + _HARMLESS_STYLE + rb"|" + _PLAIN_ATTRIBUTE.replace(rb"++[^", rb"++(?!" + _MARKED + rb")[^", 1)
    + rb"){0,40})(?>" + _ATTRIBUTE.replace(rb"|[^", rb"|(?!" + _MARKED + rb")[^", 1) + rb"{0,100})"
)  # fmt: skip


class _Vocabulary(NamedTuple):
    """What is looked for.

    `next`: text and dull tags, then at most one of: a whole tag (1: name, 2: attributes), other markup (3), nothing.
    `plain`: names that are yielded as they come. `wide`: every tag that `next` does not skip is yielded, and the text
    of style sheets.
    """

    next: re.Pattern[bytes]
    plain: frozenset[bytes]
    wide: bool


def _vocabulary(link_tags: frozenset[bytes], attributes: bytes, *, wide: bool) -> _Vocabulary:
    skipped = (
        rb"(?:<(?:/(?!" + _names((_TEMPLATE, *_FOREIGN)) + rb")[A-Za-z][^>=]*+>"
        rb"|(?!" + _names((*link_tags, *_RAW_TEXT, *_FOREIGN, _TEMPLATE, _PLAINTEXT)) + rb")"
        + _NAME + attributes + rb">"
        rb"|(?![A-Za-z/!?]))[^<]*+)"
    )  # fmt: skip
    following = re.compile(
        rb"[^<]*+(?>" + skipped + b"{0,%d})" % _RUN_MAX
        + rb"(?:<(?:(/?" + _NAME + rb")(" + _ATTRIBUTES + rb")>|(!--|[!?/]|))|)"
    )  # fmt: skip
    return _Vocabulary(following, link_tags - frozenset(_RAW_TEXT), wide)


_NARROW: Final = _vocabulary(LINK_TAGS, _ATTRIBUTES, wide=False)
_WIDE: Final = _vocabulary(LINK_TAGS | REQUISITE_TAGS, _UNMARKED_ATTRIBUTES, wide=True)
_TAG_OPEN: Final = re.compile(rb"<(/?" + _NAME + rb")")
_ATTRIBUTE_RUN: Final = re.compile(_ATTRIBUTES)
_RAW_TEXT_END: Final = {name: re.compile(rb"</" + _names((name,))) for name in _RAW_TEXT}
_SCRIPT_MARK: Final = re.compile(rb"<!--|-->|</?" + _names((b"script",)))
_COMMENT_END: Final = re.compile(rb"--!?>")
_ATTRIBUTE_PARTS: Final = re.compile(
    rb"""[\t\n\f\r /]*+([^\t\n\f\r />][^\t\n\f\r />=]*+)"""
    rb"""(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+("[^"]*+"?|'[^']*+'?|[^\t\n\f\r >]++|)|)"""
)
_SHORT_TAG_BYTES: Final = 4096


def attributes(written: bytes, wanted: Collection[bytes]) -> dict[bytes, bytes]:
    """The `wanted` attributes of a tag: names in lower case, values raw. Of a repeated one the first counts."""
    found: dict[bytes, bytes] = {}
    for name, value in _parts(written):
        if (name in wanted or (name := name.lower()) in wanted) and name not in found:
            found[name] = _unquoted(value)
    return found


def _parts(written: bytes) -> Iterable[tuple[bytes, bytes]]:
    if len(written) <= _SHORT_TAG_BYTES:  # faster, but all at once
        return _ATTRIBUTE_PARTS.findall(written)
    return ((part[1], part[2] or b"") for part in islice(_ATTRIBUTE_PARTS.finditer(written), ATTRIBUTES_MAX))


def _unquoted(value: bytes) -> bytes:
    quote = value[:1]
    return value[1:].removesuffix(quote) if quote in (b'"', b"'") else value


def link_tags(body: bytes, *, xml: bool = False, wide: bool = False) -> Iterator[Tag]:
    """The start tags of `LINK_TAGS` in document order, outside comments, raw text and inert templates.

    `xml` is for XHTML served as XML, where ``<script/>`` is closed. `wide`: also the tags of `REQUISITE_TAGS`, those
    that have one of `MARKED_ATTRIBUTES` (and a few more, unasked), and each ``style`` with its text in the place of
    attributes. Never raises.
    """
    return _Tokenizer(body, _WIDE if wide else _NARROW, xml=xml).tags()


class _Tokenizer:
    """One pass over one body. `_position` only ever grows; past the end means that the input is used up."""

    def __init__(self, body: bytes, vocabulary: _Vocabulary, *, xml: bool) -> None:
        self._body = body
        self._vocabulary = vocabulary
        self._position = 0
        self._foreign = 1 if xml else 0
        self._inert = 0

    def tags(self) -> Iterator[Tag]:
        body, match, plain, end = self._body, self._vocabulary.next.match, self._vocabulary.plain, len(self._body)
        while self._position < end:
            found = match(body, self._position)
            if found is None:  # cannot be: the pattern matches the empty string
                return
            self._position = found.end()
            name, written, mark = found.groups()
            if name in plain and not self._inert:
                yield name, written
                continue
            if mark is not None:
                name, written = self._other_markup(mark)
            if name is not None and (tag := self._enter(name.lower(), written)):
                yield tag

    def _enter(self, name: bytes, written: bytes) -> Tag | None:
        """Let a tag steer the tokenizer; what of it may bear a link."""
        start = self._position
        if name in _RAW_TEXT:
            closed = self._foreign and written.endswith(b"/")
            if not closed:
                self._skip_raw_text(name)
        elif name == _PLAINTEXT:
            self._finish()
        elif name.lstrip(b"/") in _FOREIGN:
            self._count_foreign(name, written)
        elif name.lstrip(b"/") == _TEMPLATE:
            self._count_template(name, written)
        if self._inert or name.startswith(b"/") or not (self._vocabulary.wide or name in LINK_TAGS):
            return None
        return name, self._body[start : self._position] if name == STYLE else written

    def _count_foreign(self, name: bytes, written: bytes) -> None:
        if name.startswith(b"/"):
            self._foreign = max(0, self._foreign - 1)
        elif not written.endswith(b"/"):
            self._foreign += 1

    def _count_template(self, name: bytes, written: bytes) -> None:
        """Content of a template is not shown, unless it is a declarative shadow root."""
        if name.startswith(b"/"):
            self._inert = max(0, self._inert - 1)
        elif self._inert or not attributes(written, (b"shadowrootmode",)):
            self._inert += 1

    def _other_markup(self, mark: bytes) -> tuple[bytes | None, bytes]:
        """Step over a comment or declaration; or complete a tag that was too long for the pattern, and return it."""
        body, start = self._body, self._position
        if mark == b"!--":
            self._skip_comment()
        elif mark == b"!" and self._foreign and body.startswith(b"[CDATA[", start):
            self._skip_to(b"]]>")
        elif mark in (b"!", b"?") or (mark == b"/" and not body[start : start + 1].isalpha()):
            self._skip_to(b">")
        else:
            return self._long_tag(start - 1 - len(mark))
        return None, b""

    def _long_tag(self, start: int) -> tuple[bytes | None, bytes]:
        opened = _TAG_OPEN.match(self._body, start)
        position = opened.end() if opened else len(self._body)
        while opened and (run := _ATTRIBUTE_RUN.match(self._body, position)):
            if self._body.startswith(b">", run.end()):
                self._position = run.end() + 1
                return opened[1], self._body[opened.end() : run.end()]
            if run.end() == position:
                break
            position = run.end()
        self._finish()  # the input ends inside the tag, so there is no tag
        return None, b""

    def _skip_to(self, mark: bytes) -> None:
        found = self._body.find(mark, self._position)
        self._position = found + len(mark) if found >= 0 else len(self._body)

    def _skip_comment(self) -> None:
        if self._body.startswith((b">", b"->"), self._position):
            self._skip_to(b">")
            return
        found = _COMMENT_END.search(self._body, self._position)
        self._position = found.end() if found else len(self._body)

    def _skip_raw_text(self, name: bytes) -> None:
        end = _RAW_TEXT_END[name].search(self._body, self._position)
        if end is None:
            self._finish()
        elif name == b"script" and self._body.find(b"<!--", self._position, end.start()) >= 0:
            self._skip_escaped_script()
        else:
            self._position = end.start()

    def _skip_escaped_script(self) -> None:
        """The standard's script data escaped states: inside ``<!-- <script>`` an end tag ends only the inner one."""
        escaped = doubly = False
        for mark in _SCRIPT_MARK.finditer(self._body, self._position):
            text = mark[0].lower()
            if text == b"<!--":
                # "<!-->" and "<!--->" are over at once
                escaped = escaped or not self._body.startswith((b">", b"->"), mark.end())
            elif text == b"-->":
                escaped = doubly = False
            elif text == b"<script":
                doubly = escaped
            elif doubly:
                doubly = False
            else:
                self._position = mark.start()
                return
        self._finish()

    def _finish(self) -> None:
        self._position = len(self._body)
