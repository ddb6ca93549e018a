"""Configuration: typed, complete, and clear about what is wrong."""

from pathlib import Path

import pytest

from limpet.config import Settings, load_settings
from limpet.model.errors import UsageError


def _load(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "limpet.toml"
    path.write_text(text)
    return load_settings(path)


def test_no_file_means_the_defaults() -> None:
    """Everything has a default."""
    assert load_settings(None) == Settings()


def test_values_are_read_into_their_place(tmp_path: Path) -> None:
    """TOML tables are the rooms of the settings."""
    settings = _load(tmp_path, 'owned = ["127.0.0.0/8"]\n[politeness]\nfloor_seconds = 2\n')
    assert (settings.owned, settings.politeness.floor_seconds) == (("127.0.0.0/8",), 2.0)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[politeness]\nflor_seconds = 2\n", "flor_seconds"),
        ('[politeness]\nfloor_seconds = "two"\n', "floor_seconds"),
        ("[politeness]\nfloor_seconds = -1\n", "floor_seconds"),
        ("[fetching]\nconnections_max = 0\n", "connections_max"),
        ("nonsense = 1\n", "nonsense"),
        ("[politeness\n", "limpet.toml"),
        ("[politeness]\nfloor_seconds = inf\n", "floor_seconds"),
        ("[politeness]\nfloor_seconds = nan\n", "floor_seconds"),
        ("[work]\ncommit_interval_seconds = 1e9\n", "commit_interval_seconds"),
        ("[work]\nhealth_seconds_max = 0\n", "health_seconds_max"),
        ("[work]\nlease_seconds = 1\n", "work.lease_seconds"),
        ('[notify]\nwebhook = "zzz"\n', "notify.webhook"),
        ("[fetching]\nconnect_seconds_max = 0\n", "fetching.connect_seconds_max: expected `float` > 0.0"),
        ("[politeness]\nfloor = 2\n", "unknown key politeness.floor: is it politeness.floor_seconds?"),
        ("[politenes]\nfloor_seconds = 2\n", "unknown key politenes: is it politeness?"),
        ("nonsense = 1\n", "unknown key nonsense: see docs/configuration.md"),
        ('[politeness]\nfloor_seconds = "two"\n', "politeness.floor_seconds: expected `float`, got `str`"),
        *(
            (f'[fetching]\nnameservers = ["{server}"]\n', f"fetching.nameservers: '{server}' is no address")
            for server in ("dns.example", "192.0.2.1:0", "192.0.2.1:99999", "192.0.2.300", "[192.0.2.1", "")
        ),
    ],
)
def test_a_fault_is_named(tmp_path: Path, text: str, named: str) -> None:
    """The message names the file and the key."""
    with pytest.raises(UsageError) as caught:
        _load(tmp_path, text)
    assert named in str(caught.value)
    assert "limpet.toml" in str(caught.value)


def test_nameservers_are_addresses_with_or_without_a_port(tmp_path: Path) -> None:
    """Both families, as c-ares reads them."""
    servers = ("192.0.2.1", "192.0.2.1:5353", "2001:db8::1", "[2001:db8::1]", "[::1]:5353")
    text = f"[fetching]\nnameservers = {list(servers)}\n"
    assert _load(tmp_path, text).fetching.nameservers == servers


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """Not a traceback."""
    with pytest.raises(UsageError, match=r"absent\.toml"):
        load_settings(tmp_path / "absent.toml")
