"""Pages that are drawn from the code do not drift from it."""

import re
from pathlib import Path

from limpet.config import Settings
from limpet.model.lifecycle import mermaid

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_the_lifecycle_page_is_the_transition_table() -> None:
    """The diagram is generated; edit the table, then draw it again."""
    assert f"```mermaid\n{mermaid()}\n```" in (DOCS / "lifecycle.md").read_text()


def test_every_setting_is_documented() -> None:
    """docs/configuration.md names every key with its default."""
    page = (DOCS / "configuration.md").read_text()
    for table in Settings.__struct_fields__:
        value = getattr(Settings(), table)
        keys = getattr(value, "__struct_fields__", None)
        if keys is None:
            assert f"`{table}`" in page, table
            continue
        assert f"[{table}]" in page, table
        for key in keys:
            assert f"| `{key}` | `{getattr(value, key)!r}` |" in page, f"{table}.{key}"


def test_links_between_pages_lead_somewhere() -> None:
    """A reader is never sent to a page that does not exist."""
    for page in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"
