"""A crawl of loopback that is resumed with a configuration file: what waits stays allowed."""

from pathlib import Path

import pytest

from e2e.command import OWNED, limpet
from e2e.raw_site import RawSites, Site, ok

PAGES = 6


def site() -> Site:
    """A page that links all others."""
    links = "".join(f'<a href="/{number}">x</a>' for number in range(PAGES)).encode()
    return Site(answers={"/": ok(links), **{f"/{number}": ok(b"<p>") for number in range(PAGES)}})


@pytest.fixture
def sites() -> RawSites:
    """Not yet serving."""
    return RawSites({"site": site()})


def test_a_config_file_without_owned_fails_nothing(tmp_path: Path, sites: RawSites) -> None:
    """The permission of the first run holds; the file's own key does, too."""
    folder, config = tmp_path / "crawl", tmp_path / "limpet.toml"
    config.write_text("[rules]\ndepth_trap = 12\n")
    with sites:
        first = limpet("crawl", *sites.seeds, *OWNED, "--limit", "2", "--delay", "0.05", "--into", folder)
        assert first.code == 0, first
        second = limpet("crawl", "--into", folder, "--config", config, "--json")
        assert (second.code, second.json["urls"]) == (0, {"fetched": PAGES + 1}), second
    settings = (folder / "settings.json").read_text()
    assert '"127.0.0.0/8"' in settings
    assert '"depth_trap": 12' in settings
    assert '"delay_seconds": 0.05' in settings


def test_a_config_file_that_would_fail_waiting_urls_is_refused(tmp_path: Path, sites: RawSites) -> None:
    """By name, with the ways out, and nothing has changed: without the file the crawl goes on."""
    folder, config = tmp_path / "crawl", tmp_path / "limpet.toml"
    config.write_text("owned = []\n")
    with sites:
        assert limpet("crawl", *sites.seeds, *OWNED, "--limit", "2", "--into", folder).code == 0
        before = limpet("status", folder, "--json").json["urls"]
        refused = limpet("crawl", "--into", folder, "--config", config)
        assert refused.code == 2, refused
        assert "127.0.9.1 has URLs that wait, and owned does not cover it any more" in refused.complaint
        assert limpet("status", folder, "--json").json["urls"] == before
        last = limpet("crawl", "--into", folder, "--json")
        assert (last.code, last.json["urls"]) == (0, {"fetched": PAGES + 1}), last
