"""The import contracts of pyproject.toml hold."""

from pathlib import Path

from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[2]


def test_import_contracts_hold() -> None:
    """Role services never import each other; shared code never imports a service; drivers stay in their adapters."""
    assert lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True) == 0
