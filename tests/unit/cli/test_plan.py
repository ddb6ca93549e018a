from pathlib import Path

import msgspec
import pytest

from limpet.cli.arguments import parse_arguments
from limpet.cli.plan import Plan, plan_crawl
from limpet.clock import SystemClock
from limpet.config import Settings
from limpet.embedded.folder import Folder
from limpet.model.errors import UsageError
from limpet.testing.chance import SeededRandom

OWNED = ("--owned", "a.example", "--owned", "b.example")


def plan(path: Path, *words: str, stored: tuple[str, ...] = ()) -> Plan:
    """The plan of `limpet crawl WORDS --into path/crawl`."""
    arguments = parse_arguments(["crawl", *words, "--into", str(path / "crawl")])
    return plan_crawl(arguments, clock=SystemClock(), rng=SeededRandom(1), stored_seeds=lambda _: stored)


def created(path: Path, *words: str) -> Folder:
    """A crawl folder as the words make it."""
    made = plan(path, "http://a.example/", *OWNED, *words)
    folder = Folder.create(made.path, made.facts)
    folder.store_settings(made.settings)
    return folder


def test_planning_writes_nothing(tmp_path: Path) -> None:
    """Everything is checked before the first byte is written."""
    plan(tmp_path, "http://a.example/", *OWNED)
    assert list(tmp_path.iterdir()) == []


def test_defaults_of_a_new_crawl(tmp_path: Path) -> None:
    """Scope host, agent limpet, patience ten minutes, no limit for owned hosts, one worker for one host."""
    made = plan(tmp_path, "http://a.example/", *OWNED)
    assert (made.facts.scope.kind, made.facts.scope.depth_max, made.facts.agent) == ("host", None, "limpet")
    assert (made.run.patience_seconds, made.run.limit, made.run.workers) == (600.0, None, 1)
    assert len(made.facts.hash_seed) >= 16
    assert made.facts.crawl != plan_with_seed(tmp_path, 2).facts.crawl


def plan_with_seed(path: Path, seed: int) -> Plan:
    """The same plan under other chance."""
    arguments = parse_arguments(["crawl", "http://a.example/", *OWNED, "--into", str(path / "crawl")])
    return plan_crawl(arguments, clock=SystemClock(), rng=SeededRandom(seed), stored_seeds=lambda _: ())


def test_flags_reach_facts_settings_and_run(tmp_path: Path) -> None:
    """Every flag lands where it belongs."""
    facts = ("--scope=domain", "--depth=3", "--agent=my-bot", "--contact=me@a.example", "--replicas=2")
    limits = (
        "--limit=1,000",
        "--time-limit=2h",
        "--delay=500",
        "--patience=90s",
        "--workers=3",
        "--min-free=1.5G",
        "-v",
    )
    words = (*facts, *limits, "--exact-urls", "--drop-session-ids")
    made = plan(tmp_path, "http://a.example/", *OWNED, *words)
    assert (made.facts.scope.kind, made.facts.scope.depth_max) == ("domain", 3)
    assert (made.facts.agent, made.facts.contact, made.facts.replicas) == ("my-bot", "me@a.example", 2)
    assert (made.facts.identity.exact_urls, made.facts.identity.drop_session_ids) == (True, True)
    assert (made.run.limit, made.run.time_limit_seconds, made.run.patience_seconds) == (1000, 7200.0, 90.0)
    assert (made.run.workers, made.run.log_level) == (3, 10)
    assert (made.settings.politeness.delay_seconds, made.in_force.min_free_bytes) == (500.0, 1_500_000_000)
    assert made.settings.min_free_bytes == Settings().min_free_bytes, "of one run: not remembered"
    assert made.settings.owned == ("a.example", "b.example")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--agent", "my bot"), "no product token"),
        (("--agent", ""), "no product token"),
        (("--agent", "bot\r\nX: y"), "no product token"),
        (("--contact", "nobody"), "reaches nobody"),
        (("--contact", "me@a.example) evil (x"), "reaches nobody"),
        (("--contact", "me@a.example\n"), "reaches nobody"),
        (("--owned", "10.0.0.0/99"), "write a host name, an address or a network"),
        (("--limit", "0"), "at least 1"),
        (("--limit", "many"), "not a whole number"),
        (("--time-limit", "soon"), "not a duration"),
        (("--workers", "99"), "at most 32 workers"),
        (("--depth", "-1"), "--depth"),
        (("--min-free", "plenty"), "not a size: write 500, 10k, 200M or 1G"),
        (("--scope", "world"), "invalid choice: 'world'"),
        (("--replicas", "4"), "--replicas"),
        (("--no-such-flag",), "unrecognized arguments: --no-such-flag"),
        (("-q", "-v"), "not allowed with"),
        (("--config", "/no/such/file"), "cannot read configuration /no/such/file"),
        (("-i", "/no/such/list"), "cannot read /no/such/list"),
        (("example.org",), "write https://example.org/"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(
    tmp_path: Path, words: tuple[str, ...], complaint: str
) -> None:
    """One line that names the flag or the value, and an untouched disk."""
    with pytest.raises(UsageError, match=complaint) as caught:
        plan(tmp_path, "http://a.example/", *OWNED, *words)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_bad_configuration_names_file_key_and_fault(tmp_path: Path) -> None:
    """A typo in a key and a wrong type are told apart."""
    config = tmp_path / "limpet.toml"
    for text, complaint in (("[politeness]\nflor_seconds = 2\n", "flor_seconds"), ("owned = 3\n", "owned")):
        config.write_text(text)
        with pytest.raises(UsageError, match=f"configuration .*limpet.toml: .*{complaint}"):
            plan(tmp_path, "http://a.example/", "--config", str(config))


def test_urls_may_stand_between_flags(tmp_path: Path) -> None:
    """The order of words does not matter."""
    made = plan(tmp_path, "http://a.example/", *OWNED, "http://b.example/", "--limit", "5", "http://a.example/x")
    assert made.run.seeds == ("http://a.example/", "http://b.example/", "http://a.example/x")


def test_a_resume_needs_no_url_and_keeps_facts_and_settings(tmp_path: Path) -> None:
    """URLs and --owned may be left out; the stored scope and settings hold."""
    folder = created(tmp_path, "--scope", "prefix", "--delay", "7")
    made = plan(tmp_path, stored=("http://a.example/",))
    assert made.facts == folder.facts
    assert made.settings.owned == ("a.example", "b.example")
    assert made.settings.politeness.delay_seconds == 7.0
    assert made.run.seeds == ()


def test_a_resume_may_repeat_its_flags(tmp_path: Path) -> None:
    """The same command line resumes."""
    created(tmp_path, "--scope", "prefix", "--contact", "me@a.example", "--depth", "2")
    words = ("--scope", "prefix", "--contact", "me@a.example", "--depth", "2")
    assert plan(tmp_path, "http://a.example/", *OWNED, *words, stored=("http://a.example/",)).folder is not None


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--scope", "domain"), "--scope is host in this crawl, not domain: leave --scope out"),
        (("--depth", "4"), "--depth is unlimited in this crawl, not 4"),
        (("--agent", "other"), "--agent is limpet in this crawl, not other"),
        (("--contact", "me@a.example"), "--contact is not set in this crawl, not me@a.example"),
        (("--exact-urls",), "--exact-urls is off in this crawl, not on"),
        (("--replicas", "2"), "--replicas is 1 in this crawl, not 2"),
    ],
)
def test_a_differing_fact_is_refused_naming_both(tmp_path: Path, words: tuple[str, ...], complaint: str) -> None:
    """Scope and identity are stored; the refusal names the stored value, the asked one and the fix."""
    created(tmp_path)
    with pytest.raises(UsageError, match=complaint):
        plan(tmp_path, *words, stored=("http://a.example/",))


def test_rates_and_limits_may_change_on_resume(tmp_path: Path) -> None:
    """Flags on top of stored settings."""
    created(tmp_path, "--delay", "7", "--limit", "5")
    made = plan(tmp_path, "--delay", "3", "--limit", "50", "--patience", "5", stored=("http://a.example/",))
    assert (made.settings.politeness.delay_seconds, made.run.limit, made.run.patience_seconds) == (3.0, 50, 5.0)


def test_a_crawl_without_seeds_needs_one(tmp_path: Path) -> None:
    """Nothing given and nothing stored: there is nothing to do, and that is said."""
    with pytest.raises(UsageError, match="no URL to begin with"):
        plan(tmp_path)


def test_facts_of_another_limpet_are_refused(tmp_path: Path) -> None:
    """A public suffix list that changed would move hosts between owners."""
    folder = created(tmp_path)
    text = msgspec.json.encode(msgspec.structs.replace(folder.facts, suffix_list_digest="0" * 64))
    (folder.path / "facts.json").write_bytes(text)
    with pytest.raises(UsageError, match=r"was made with public suffix list 0000000000000000, and this Limpet has"):
        plan(tmp_path, stored=("http://a.example/",))


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    """Nothing is ever written into a folder that holds other things."""
    (tmp_path / "crawl").mkdir()
    (tmp_path / "crawl" / "thesis.tex").write_text("x")
    with pytest.raises(UsageError, match="not empty"):
        plan(tmp_path, "http://a.example/")


def test_several_hosts_get_several_workers(tmp_path: Path) -> None:
    """More than one seed host, or a scope that reaches further, uses the cores up to four."""
    several = plan(tmp_path, "http://a.example/", "http://b.example/", *OWNED).run.workers
    domain = plan(tmp_path, "http://a.example/", *OWNED, "--scope", "domain").run.workers
    assert several == domain
    assert 1 <= several <= 4
