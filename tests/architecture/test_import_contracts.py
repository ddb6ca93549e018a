"""The import contracts of pyproject.toml hold."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_import_contracts_hold() -> None:
    """Role services never import each other; shared code never imports a service; drivers stay in their adapters.

    In a process of its own: the linter sets up logging anew and would switch off the loggers that other tests hear.
    """
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [str(linter), "--config", "pyproject.toml", "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
