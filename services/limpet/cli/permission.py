"""What a crawl may do, judged by whose hosts its seeds are on.

A host is owned when `--owned` names it or covers every address it has. Everything else is public. Who leaves no contact
crawls the public web small and slowly: one seed host, one request in five seconds, a thousand pages. Who can be reached
may have many public hosts at the ordinary floor. Loopback and private addresses are never public:
without `--owned` they are refused, with the flag that would allow them.
"""

import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from limpet.cli.seeds import Seed
from limpet.config import Settings
from limpet.config.settings import Rules
from limpet.fetch.denylist import packed
from limpet.fetch.gate import Gate, Owned, bare_host
from limpet.model.errors import UsageError
from limpet.model.urls import split

PUBLIC_FLOOR_SECONDS: Final = 5.0
PUBLIC_PAGES_MAX: Final = 1_000
REACHABLE_FLOOR_SECONDS: Final = 1.0

_LOOPBACK_SUFFIX: Final = ".localhost"

Resolve = Callable[[str], Sequence[str]]
"""Addresses of a host name, [] when there are none. May ask the network."""


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    """What the seeds allow. `public` holds the seed hosts that are not owned, without www.

    `names` are seed hosts that are owned because every address they have is: the crawl takes them by name, since at a
    send only names and addresses are compared.
    """

    public: tuple[str, ...]
    hosts: int
    names: tuple[str, ...] = ()


def parse_owned(entries: Iterable[str]) -> Owned:
    """The operator's hosts and networks. Raises `UsageError` naming the entry and the forms."""
    try:
        return Owned.parse(entries)
    except ValueError as error:
        raise UsageError(f"{error}; write a host name, an address or a network such as 10.0.0.0/8") from None


def judge(
    seeds: Iterable[Seed], stored: Iterable[str], owned: Owned, resolve: Resolve, *, many_public: bool = False
) -> Permission:
    """Whose hosts `seeds` and the `stored` seed URLs are on. `many_public`: more than one may be somebody else's.

    Raises `UsageError` for a seed that the connect gate would refuse, and for a second public host.
    """
    gate = Gate(owned)
    known = {bare_host(split(url).host) for url in stored}
    ours = {host: _owns(gate, host, resolve) for host in known}
    fresh: dict[str, Seed] = {}
    for seed in seeds:
        host = bare_host(seed.parts.host)
        if host not in ours:
            ours[host] = _owns(gate, host, resolve)
        _check_gate(gate, seed, owned=ours[host])
        fresh.setdefault(host, seed)
    public = {_apex(host) for host, yes in ours.items() if not yes}
    if not many_public:
        _check_one_host(public, {_apex(host) for host in known}, {_apex(host): seed for host, seed in fresh.items()})
    names = tuple(sorted(host for host, yes in ours.items() if yes and not owned.covers_host(host)))
    return Permission(public=tuple(sorted(public)), hosts=len({_apex(host) for host in ours}), names=names)


def apply(
    permission: Permission, settings: Settings, limit: int | None, *, many_public: bool = False
) -> tuple[Settings, int | None, list[str]]:
    """Settings and page limit under `permission`, and the lines that tell a user what was capped and why."""
    if permission.names:
        settings = msgspec.structs.replace(settings, owned=(*settings.owned, *permission.names))
    if not permission.public:
        return settings, limit, []
    if many_public:
        return _with_floor(settings, REACHABLE_FLOOR_SECONDS), limit, []
    pages = min(limit or PUBLIC_PAGES_MAX, PUBLIC_PAGES_MAX)
    settings = _with_floor(settings, PUBLIC_FLOOR_SECONDS)
    floor = settings.politeness.floor_seconds
    line = (
        f"{permission.public[0]} is not owned by you and no --contact is given: at most {pages:,} pages of one host, "
        f"at least {floor:g} s apart, nothing of other hosts (--owned lifts this for hosts of your own, "
        "a --contact lets site owners reach you)"
    )
    return settings, pages, [line]


def bound_hosts(
    permission: Permission, settings: Settings, before: Settings | None, now_us: int, *, many_public: bool
) -> Settings:
    """Settings that say which hosts a run may ask besides its seeds', whatever its pages need.

    A crawl of hosts of one's own stays on them: nobody who crawls a machine of theirs expects it to reach out. When
    this differs from `before`, the settings of the last run, `now_us` is kept: what was judged until then was judged
    otherwise, as `verify --links` has to know.
    """
    public = bool(permission.public)
    rules = msgspec.structs.replace(
        settings.rules,
        owned_hosts_only=not public,
        seed_hosts_only=public and not many_public,
        hosts_since_us=before.rules.hosts_since_us if before is not None else 0,
    )
    if before is not None and (before.owned, before.rules) != (settings.owned, _like(before.rules, rules)):
        rules = msgspec.structs.replace(rules, hosts_since_us=now_us)
    return msgspec.structs.replace(settings, rules=rules)


def _like(before: Rules, now: Rules) -> Rules:
    """The rules of the last run with what says now which hosts may be asked."""
    return msgspec.structs.replace(before, owned_hosts_only=now.owned_hosts_only, seed_hosts_only=now.seed_hosts_only)


def _with_floor(settings: Settings, floor_seconds: float) -> Settings:
    floor_seconds = max(settings.politeness.floor_seconds, floor_seconds)
    politeness = msgspec.structs.replace(settings.politeness, floor_seconds=floor_seconds)
    return msgspec.structs.replace(settings, politeness=politeness)


def check_any(permission: Permission, *, ends: bool, contact: bool) -> None:
    """Scope `any` follows every link: into strangers' hosts only where they can reach us, and only with an end.

    Raises `UsageError`.
    """
    if permission.public and not contact:
        raise UsageError(
            f"--scope any leads to hosts of others, and {permission.public[0]} is not yours: "
            "give a --contact where site owners reach you, or name it with --owned if it is yours"
        )
    if not ends:
        raise UsageError("--scope any has no end of its own: add --limit N or --depth N")


def system_resolve(host: str) -> list[str]:
    """`Resolve` by the system's resolver; [] when it knows nothing."""
    try:
        return [str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError):
        return []


def _owns(gate: Gate, host: str, resolve: Resolve) -> bool:
    if gate.owned.covers_host(host):
        return True
    if not gate.owned or packed(host) is not None:
        return False
    return gate.owns(host, resolve(host))


def _check_gate(gate: Gate, seed: Seed, *, owned: bool) -> None:
    """Refuse now what every connection would be refused for."""
    host = bare_host(seed.parts.host)
    place = f"{seed.where}: " if seed.where else ""
    reason = gate.check_target(seed.parts.scheme, seed.parts.port, owned=owned)
    if reason is None and not owned:
        if host == _LOOPBACK_SUFFIX[1:] or host.endswith(_LOOPBACK_SUFFIX):
            reason = f"{host} is this machine"
        elif packed(host) is not None:
            reason = gate.check_address(host, host, seed.parts.port, owned=False)
    if reason is not None:
        raise UsageError(f"{place}{seed.url} would be refused ({reason}): if it is yours, crawl it with --owned {host}")


def _check_one_host(public: set[str], known: set[str], fresh: dict[str, Seed]) -> None:
    """One public seed host, and no other seed host beside it."""
    strangers = sorted(set(fresh) - known)
    if not public or len(strangers) + len(known) <= 1 or not strangers:
        return
    culprit = min(public)
    if known:
        raise UsageError(
            f"{fresh[strangers[0]].url} is on another host than this crawl's seeds, and {culprit} is not owned: "
            "crawl it into a folder of its own (--owned lifts this for hosts of your own, a --contact for all)"
        )
    shown = ", ".join(strangers[:3]) + (", …" if len(strangers) > 3 else "")
    raise UsageError(
        f"{culprit} is not owned, so the crawl takes one seed host, not {len(strangers)} ({shown}): "
        "crawl each into a folder of its own (--owned lifts this for hosts of your own, a --contact for all)"
    )


def _apex(host: str) -> str:
    return host.removeprefix("www.")
