"""The shape of the tree, which fails the build when it is bent."""

import ast
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOTS = ("services", "shared", "schemas")
MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60


def _sources(*folders: str) -> list[Path]:
    return sorted(chain.from_iterable((ROOT / folder).rglob("*.py") for folder in folders))


def test_limpet_stays_a_namespace() -> None:
    """A stray __init__.py at */limpet/ would hide the other two roots from the import system (PEP 420)."""
    assert [root for root in ROOTS if (ROOT / root / "limpet" / "__init__.py").exists()] == []
    assert all((ROOT / root / "limpet").is_dir() for root in ROOTS)


def test_every_room_says_what_it_is_for() -> None:
    """Each package's docstring tells a newcomer which lines belong in it."""
    for init in _sources(*ROOTS):
        if init.name == "__init__.py":
            docstring = ast.get_docstring(ast.parse(init.read_text()))
            assert docstring, init
            assert "TODO" not in docstring, init


def test_modules_and_functions_stay_small() -> None:
    """Bounds that only ever go down."""
    for source in _sources(*ROOTS, "loadtest"):
        text = source.read_text()
        assert text.count("\n") <= MODULE_LINES_MAX, source
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                assert length <= FUNCTION_LINES_MAX, f"{source}: {node.name} has {length} lines"


def test_the_witness_shares_no_code_with_the_crawler() -> None:
    """The site judges from its own log: nothing in loadtest/origin may import limpet."""
    for source in _sources("loadtest/origin"):
        for node in ast.walk(ast.parse(source.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not [name for name in names if name.split(".")[0] == "limpet"], source


def test_no_mocks_and_no_patching() -> None:
    """Faults are small named fakes, not patches."""
    banned = {"MagicMock", "mock"}
    for source in _sources("tests", *ROOTS):
        if source == Path(__file__):
            continue
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                module = getattr(node, "module", "") or ""
                names = {alias.name for alias in node.names} | set(module.split("."))
                assert not names & banned, source
            if isinstance(node, ast.Attribute) and node.attr == "setattr":
                assert getattr(node.value, "id", "") != "monkeypatch", source


def test_the_tree_names_no_place_outside_itself() -> None:
    """A clone works anywhere: no absolute path of some machine in code, docs or configuration."""
    home = str(ROOT.parent) + "/"
    for path in [
        *_sources("tests", "loadtest", *ROOTS),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("*.md"),
        ROOT / "Makefile",
    ]:
        assert home not in path.read_text(), path
