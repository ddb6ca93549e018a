"""What a resume remembers, and what a configuration file changes of it.

Keys that a flag can set stay until a flag, or a file that names them, says otherwise: a file that speaks of something
else takes no budget, delay or permission back. All other keys can only come from a file, so each new file replaces them
as a whole. The table in docs/configuration.md is made from the two rules here and checked against them.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import msgspec

from limpet.config import Settings, load_settings
from limpet.config.settings import contradiction, named_keys
from limpet.fetch import Owned
from limpet.fetch.denylist import packed
from limpet.fetch.gate import Gate, bare_host
from limpet.model.errors import UsageError

FLAG_KEYS: Final = {
    "owned": "--owned",
    "accept_invalid_cert": "--accept-invalid-cert",
    "proxy": "--proxy",
    "proxy_credentials_file": "--proxy-credentials",
    "politeness.delay_seconds": "--delay",
    "politeness.budget_per_day": "--budget",
    "rules.host_urls_max": "--host-limit",
    "fetching.body_bytes_max": "--size-limit",
}
"""Keys of the settings that a flag sets: the flag."""
_WEB_PORT: Final = 80


def remembered(stored: Settings | None, config: Path | None) -> Settings:
    """Settings of a run before its own flags: what the last run left, and the file of this one on top.

    Raises `UsageError` for a file that cannot be used, alone or with what is remembered.
    """
    if config is None:
        return stored or Settings()
    settings = load_settings(config)
    if stored is None:
        return settings
    named = named_keys(config)
    for key in FLAG_KEYS.keys() - named:
        settings = _with(settings, key, _of(stored, key))
    if fault := contradiction(settings):
        raise UsageError(f"configuration {config}, with what this crawl remembers: {fault}")
    return settings


def check_withdrawn(before: Settings | None, now: Settings, waiting_hosts: Callable[[], Iterable[str]]) -> None:
    """No host with URLs that wait may lose the `owned` without which the gate refuses it: they would fail.

    Raises `UsageError` naming the host.
    """
    if before is None or set(before.owned) <= set(now.owned):
        return
    was, is_now = Owned.parse(before.owned), Owned.parse(now.owned)
    gate = Gate(is_now)
    for host in waiting_hosts():
        lost = was.covers_host(host) and not is_now.covers_host(host)
        if lost and _is_closed(gate, bare_host(host)):
            raise UsageError(
                f"{host} has URLs that wait, and owned does not cover it any more: they would all fail; "
                f"keep it with --owned {host}, or block it first: limpet hosts DIR block {host}"
            )


def _is_closed(gate: Gate, host: str) -> bool:
    """Whether the gate refuses the host where it is not owned, as far as its name tells."""
    if packed(host) is not None:
        return gate.check_address(host, host, _WEB_PORT, owned=False) is not None
    return host == "localhost" or host.endswith(".localhost")


def _of(settings: Settings, key: str) -> Any:
    value: Any = settings
    for name in key.split("."):
        value = getattr(value, name)
    return value


def _with(settings: Settings, key: str, value: Any) -> Settings:
    table, _, name = key.rpartition(".")
    if not table:
        return msgspec.structs.replace(settings, **{name: value})
    inner = msgspec.structs.replace(getattr(settings, table), **{name: value})
    return msgspec.structs.replace(settings, **{table: inner})
