"""--no-requisites: a fact of the crawl, repeated but never changed by a resume."""

from pathlib import Path

import pytest

from limpet.cli.arguments import parse_arguments
from limpet.cli.plan import Plan, plan_crawl
from limpet.clock import SystemClock
from limpet.embedded.folder import Folder
from limpet.model.errors import UsageError
from limpet.testing.chance import SeededRandom


def _plan(folder: Path, *words: str) -> Plan:
    arguments = parse_arguments(["crawl", "http://a.example/", "--owned", "a.example", *words, "--into", str(folder)])
    return plan_crawl(arguments, clock=SystemClock(), rng=SeededRandom(1), stored_seeds=lambda _: ())


def test_the_flag_and_its_absence(tmp_path: Path) -> None:
    """Without the flag a new crawl fetches what its pages need, and reads feeds and sitemaps; with it only these."""
    assert _plan(tmp_path / "c").facts.scope.requisites is True
    assert _plan(tmp_path / "c").facts.scope.extras is True
    assert _plan(tmp_path / "c", "--no-requisites").facts.scope.extras is True
    assert _plan(tmp_path / "c", "--no-requisites").facts.scope.requisites is False


def test_a_resume_may_repeat_it_and_not_change_it(tmp_path: Path) -> None:
    """What a crawl fetches is stored with it."""
    without = _plan(tmp_path / "without", "--no-requisites")
    Folder.create(without.path, without.facts)
    assert _plan(without.path, "--no-requisites").facts == _plan(without.path).facts == without.facts
    scope = type(without.facts.scope)(requisites=True)
    with_them = tmp_path / "with"
    Folder.create(
        with_them,
        type(without.facts)(
            hash_seed=without.facts.hash_seed,
            crawl="c",
            suffix_list_digest=without.facts.suffix_list_digest,
            scope=scope,
        ),
    )
    assert _plan(with_them).facts.scope.requisites is True
    with pytest.raises(UsageError, match="--no-requisites is off in this crawl"):
        _plan(with_them, "--no-requisites")
