"""From a command line to a checked plan of a run. Nothing here writes: what is wrong is found before anything is."""

import argparse
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from limpet.cli.opening import open_crawl
from limpet.cli.permission import apply, bound_hosts, check_any, judge, parse_owned, system_resolve
from limpet.cli.reading import waiting_hosts
from limpet.cli.remembered import FLAG_KEYS, check_withdrawn, remembered
from limpet.cli.seeds import Seed, check_entries, check_patterns, read_entries
from limpet.clock import Clock
from limpet.config import Facts, ScopeFacts, Settings
from limpet.config.faults import out_of_range
from limpet.config.names import check_agent, check_contact
from limpet.config.settings import contradiction
from limpet.embedded.folder import Folder, check_vacant, is_crawl
from limpet.embedded.order import Run
from limpet.fetch.gate import host_name
from limpet.fetch.proxy import read_proxy
from limpet.model.errors import UsageError
from limpet.model.identity import (
    BUCKETS,
    IDENTITY_RULES_VERSION,
    SEED_BYTES_MIN,
    SHARDS,
    IdentityRules,
    suffix_list_digest,
)
from limpet.runtime import Random, new_incarnation

_WORKERS_DEFAULT_MAX: Final = 4
_ONE_HOST_SCOPES: Final = frozenset({"page", "host", "prefix"})


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One run, checked. `folder` is None for a crawl that has yet to be created from `facts`.

    `settings` are remembered for later runs, `in_force` are those of this one.
    """

    path: Path
    folder: Folder | None
    facts: Facts
    settings: Settings
    in_force: Settings
    run: Run
    lines: tuple[str, ...]


def plan_crawl(
    arguments: argparse.Namespace,
    *,
    clock: Clock,
    rng: Random,
    stored_seeds: Callable[[Folder], Sequence[str]],
) -> Plan:
    """The plan of `limpet crawl`. Raises `UsageError` for the first thing that is wrong with it."""
    path: Path = arguments.into
    folder = open_crawl(path) if is_crawl(path) else None
    if folder is None:
        check_vacant(path)
    else:
        check_facts(folder)
        _check_differences(folder.facts, arguments)
    settings = settings_of(arguments, folder)
    if folder is not None:
        check_withdrawn(folder.load_settings(), settings, lambda: waiting_hosts(folder))
    seeds = check_entries(read_entries(arguments.urls, arguments.input), settings.rules.url_bytes_max)
    stored = tuple(stored_seeds(folder)) if folder else ()
    if not seeds and not stored:
        raise UsageError("no URL to begin with: give at least one, or -i FILE")
    facts = folder.facts if folder else _new_facts(arguments, clock, rng)
    check_patterns(seeds, facts.scope)
    return _permitted(arguments, path, folder, facts, settings, seeds, stored, clock.wall_us())


def _permitted(
    arguments: argparse.Namespace,
    path: Path,
    folder: Folder | None,
    facts: Facts,
    settings: Settings,
    seeds: list[Seed],
    stored: Sequence[str],
    now_us: int,
) -> Plan:
    many = bool(facts.contact)
    permission = judge(seeds, stored, parse_owned(settings.owned), system_resolve, many_public=many)
    if facts.scope.kind == "any":
        ends = facts.scope.depth_max is not None or arguments.limit is not None
        check_any(permission, ends=ends, contact=many)
    settings, limit, lines = apply(permission, settings, arguments.limit, many_public=many)
    before = folder.load_settings() if folder else None
    settings = bound_hosts(permission, settings, before, now_us, many_public=many)
    one_host = permission.hosts == 1 and facts.scope.kind in _ONE_HOST_SCOPES
    run = Run(
        workers=arguments.workers or (1 if one_host else min(_WORKERS_DEFAULT_MAX, len(os.sched_getaffinity(0)))),
        patience_seconds=arguments.patience,
        limit=limit,
        time_limit_seconds=arguments.time_limit,
        seeds=tuple(seed.url for seed in seeds),
        log_level=logging.DEBUG if arguments.verbose else logging.INFO,
    )
    in_force = settings
    if arguments.min_free is not None:
        in_force = msgspec.structs.replace(settings, min_free_bytes=arguments.min_free)
    return Plan(
        path=path, folder=folder, facts=facts, settings=settings, in_force=in_force, run=run, lines=tuple(lines)
    )


def settings_of(arguments: argparse.Namespace, folder: Folder | None) -> Settings:
    """Settings of a run: what is remembered, the file named by --config, flags; see `limpet.cli.remembered`."""
    settings = remembered(folder.load_settings() if folder else None, arguments.config)
    owned = tuple(dict.fromkeys((*settings.owned, *arguments.owned)))
    parse_owned(owned)
    accepted = tuple(dict.fromkeys(map(_host, (*settings.accept_invalid_cert, *arguments.accept_invalid_cert))))
    settings = msgspec.structs.replace(settings, owned=owned, accept_invalid_cert=accepted)
    settings = _with_proxy(arguments, settings)
    if arguments.delay is not None:
        politeness = msgspec.structs.replace(settings.politeness, delay_seconds=arguments.delay)
        settings = msgspec.structs.replace(settings, politeness=politeness)
    if arguments.budget is not None:
        politeness = msgspec.structs.replace(settings.politeness, budget_per_day=arguments.budget)
        settings = msgspec.structs.replace(settings, politeness=politeness)
    if arguments.host_limit is not None:
        rules = msgspec.structs.replace(settings.rules, host_urls_max=arguments.host_limit)
        settings = msgspec.structs.replace(settings, rules=rules)
    if arguments.size_limit is not None:
        fetching = msgspec.structs.replace(settings.fetching, body_bytes_max=arguments.size_limit)
        settings = msgspec.structs.replace(settings, fetching=fetching)
        if fault := contradiction(settings):
            raise UsageError(f"--size-limit {arguments.size_limit}: {fault}")
    if fault := out_of_range(settings):
        key, _, rest = fault.partition(": ")
        raise UsageError(f"{FLAG_KEYS.get(key, key)}: {rest}")
    return settings


def _with_proxy(arguments: argparse.Namespace, settings: Settings) -> Settings:
    """The proxy of this run, checked. Its credentials are never part of the settings."""
    if arguments.proxy is not None:
        settings = msgspec.structs.replace(settings, proxy=arguments.proxy)
    if arguments.proxy_credentials is not None:
        path = str(Path(arguments.proxy_credentials).absolute())
        settings = msgspec.structs.replace(settings, proxy_credentials_file=path)
    read_proxy(settings.proxy, settings.proxy_credentials_file)
    return settings


def _host(text: str) -> str:
    """A host of --accept-invalid-cert, without port or scheme."""
    host = host_name(text)
    if host is None:
        raise UsageError(f"--accept-invalid-cert {text!r} is no host: write its name or address alone")
    return host


def check_facts(folder: Folder) -> None:
    """The facts of a stored crawl are those this program gives a crawl. Raises `UsageError` naming both values."""
    check_identity(folder)
    for name, stored, ours in (
        ("shards", folder.facts.shards, SHARDS),
        ("buckets", folder.facts.buckets, BUCKETS),
    ):
        _check_same(folder, name, stored, ours)


def check_identity(folder: Folder) -> None:
    """A URL is the same URL for this program, in whatever number of shards. Raises `UsageError` naming both values."""
    _check_same(folder, "identity rules version", folder.facts.identity_version, IDENTITY_RULES_VERSION)
    _check_same(folder, "public suffix list", folder.facts.suffix_list_digest[:16], suffix_list_digest()[:16])


def _check_same(folder: Folder, name: str, stored: object, ours: object) -> None:
    if stored != ours:
        raise UsageError(
            f"{folder.path} was made with {name} {stored}, and this Limpet has {ours}: hosts or URLs would move; "
            "use the Limpet (and publicsuffixlist) that made it"
        )


def _check_differences(facts: Facts, arguments: argparse.Namespace) -> None:
    """Flags that repeat a stored fact must agree with it."""
    stored = {
        "scope": facts.scope.kind,
        "depth": facts.scope.depth_max,
        "include": facts.scope.include,
        "exclude": facts.scope.exclude,
        "no_requisites": not facts.scope.requisites,
        "agent": facts.agent,
        "contact": facts.contact,
        "exact_urls": facts.identity.exact_urls,
        "drop_session_ids": facts.identity.drop_session_ids,
        "replicas": facts.replicas,
    }
    for name, value in stored.items():
        asked = getattr(arguments, name)
        asked = tuple(asked) if isinstance(asked, list) else asked
        if asked is not None and asked != value:
            flag = "--" + name.replace("_", "-")
            raise UsageError(
                f"{flag} is {_shown(value)} in this crawl, not {_shown(asked)}: "
                f"leave {flag} out, or crawl into a new folder"
            )


def _new_facts(arguments: argparse.Namespace, clock: Clock, rng: Random) -> Facts:
    agent = arguments.agent if arguments.agent is not None else "limpet"
    check_agent(agent, "--agent")
    contact = arguments.contact or ""
    check_contact(contact, "--contact")
    return Facts(
        crawl=new_incarnation(rng),
        shards=SHARDS,
        buckets=BUCKETS,
        hash_seed=rng.token(SEED_BYTES_MIN),
        suffix_list_digest=suffix_list_digest(),
        identity_version=IDENTITY_RULES_VERSION,
        identity=IdentityRules(
            exact_urls=bool(arguments.exact_urls), drop_session_ids=bool(arguments.drop_session_ids)
        ),
        replicas=arguments.replicas or 1,
        agent=agent,
        contact=contact,
        scope=ScopeFacts(
            kind=arguments.scope or "host",
            depth_max=arguments.depth,
            requisites=not arguments.no_requisites,
            extras=True,
            include=tuple(arguments.include or ()),
            exclude=tuple(arguments.exclude or ()),
        ),
        created_us=clock.wall_us(),
    )


def _shown(value: object) -> str:
    if value is None:
        return "unlimited"
    if value in ("", ()):
        return "not set"
    if isinstance(value, tuple):
        return " ".join(map(repr, value))
    return {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)
