"""Every form of link in the registry: its example, its kind, its switch, its line in the documentation."""

from pathlib import Path

import pytest

from limpet.model.links import LinkKind
from limpet.parser.forms import FORMS, NOT_FOLLOWED, Form, Source, not_followed, table
from limpet.parser.page import Parsed
from limpet.parser.requisites import ATTRIBUTES
from limpet.parser.wants import Wants
from unit.parser.pages import ALL, EXTRAS, NOTHING_MORE, REQUISITES, links, parsed

PAGE = Path(__file__).parents[3] / "docs" / "links.md"
SWITCHES = {"every crawl": NOTHING_MORE, "requisites": REQUISITES, "extras": EXTRAS}


def _read(form: Form, wants: Wants) -> Parsed:
    if form.source is Source.LINK_FIELD:
        return parsed("", f"Link: {form.example}", content_type="application/pdf", wants=wants)
    if form.source is Source.REFRESH_FIELD:
        return parsed("", f"Refresh: {form.example}", wants=wants)
    hops = "M" if form.source is Source.SITEMAP_LIST else ""
    return parsed(form.example, content_type=form.source, wants=wants, hops=hops)


@pytest.mark.parametrize("form", FORMS, ids=[f"{form.source}: {form.name}" for form in FORMS])
def test_a_listed_form_is_read(form: Form) -> None:
    """Its example gives one link of its kind, in a crawl that wants everything and in one that wants just this."""
    for wants in (ALL, SWITCHES[form.wanted_by]):
        assert links(_read(form, wants)) == [("/x", form.kind)]


@pytest.mark.parametrize("form", [form for form in FORMS if form.wanted_by != "every crawl"])
def test_a_form_that_is_not_wanted_is_not_looked_for(form: Form) -> None:
    """Neither a plain crawl nor one that wants the other family sees it."""
    other = EXTRAS if form.wanted_by == "requisites" else REQUISITES
    assert links(_read(form, NOTHING_MORE)) == links(_read(form, other)) == []


@pytest.mark.parametrize("markup", NOT_FOLLOWED)
def test_what_is_not_followed(markup: str) -> None:
    """Forms that a reader would have to send, hints to connect, and what only looks like a link."""
    assert links(parsed(markup)) == []


def test_every_attribute_that_is_read_is_listed() -> None:
    """The parser's table holds nothing that the registry does not."""
    names = {form.name for form in FORMS}
    for tag, attributes in ATTRIBUTES.items():
        for attribute in attributes:
            assert f"{tag.decode()}[{attribute.decode()}]" in names


def test_every_kind_has_a_form() -> None:
    """No kind is a mere name."""
    assert {form.kind for form in FORMS} == set(LinkKind)


def test_names_are_distinct() -> None:
    """One line a form."""
    assert len({(form.name, form.source) for form in FORMS}) == len(FORMS)


def test_the_page_is_drawn_from_the_registry() -> None:
    """docs/links.md holds both lists as they are; change the registry, then draw them again."""
    text = PAGE.read_text()
    assert table() in text
    assert not_followed() in text
