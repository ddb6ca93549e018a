"""The governor: when a host may be asked again. Catch-up is capped by it, never by backlog.

One connection a host, and from the end of one response to the start of the next request at least the gap: the largest
of the floor, the site's crawl-delay and a multiple of its last response time. A wait that the site asked for
(Retry-After) comes on top and is durable, and so is the breaker's. What hosts share, a domain, a platform, an address,
has ceilings of its own, kept in ledgers (`limpet.politeness.shares`): no share, no send. Nothing piles up while the
process is down: after a start a host waits one full gap, and two gaps if a request of ours may still have been under
way (see `unfinished_wait_seconds`).

Gaps are measured on the monotonic clock, ceilings in boot time, waits in durable time; no wall clock is read here.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec.structs import replace

from limpet.clock import Clock
from limpet.config.settings import Politeness
from limpet.fetch.denylist import is_public
from limpet.politeness import breaker, delays
from limpet.politeness.breaker import Answer
from limpet.politeness.keys import (
    DAY_SECONDS,
    Key,
    address_keys,
    candidates,
    domain_key,
    global_key,
    platform_key,
    those,
    worker_key,
)
from limpet.politeness.lines import Lines
from limpet.politeness.orders import NO_ORDER, NO_ORDERS, Orders, changed_hosts
from limpet.politeness.shares import Blocked, LocalShares, Shares
from limpet.politeness.state import HostState, Permit, lasting
from limpet.politeness.unfinished import UNFINISHED, unfinished_wait_seconds
from limpet.urlstore.types import HostRow

BUSY_SECONDS = 0.05
PARKED_SECONDS: Final = 300.0
"""A host in line is called; should that fail, it asks by itself after so long."""

LOCATED_SECONDS_MAX: Final = 60.0
SLOW_SECONDS: Final = 3_600.0
STOPPED_SECONDS: Final = 3_600.0
"""A host that the operator stopped is looked at again so late; an order that is taken back is told at once."""
TOLD_TO_WAIT: Final = frozenset({"http_429", "http_503"})
_DAY_US: Final = DAY_SECONDS * 1_000_000


class Governor:
    """Politeness of the hosts that this process owns.

    `shares` is the ledger of the ceilings that span processes; `owns_address` tells whether the operator's list covers
    an address; `fraction` gives chance in [0, 1) for the breaker.
    """

    def __init__(
        self,
        clock: Clock,
        policy: Politeness,
        is_owned: Callable[[str], bool],
        *,
        shares: Shares | None = None,
        owns_address: Callable[[str], bool] = lambda _: False,
        fraction: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._clock = clock
        self._policy = policy
        self._is_owned = is_owned
        self._owns_address = owns_address
        self._fraction = fraction
        self._hosts: dict[str, HostState] = {}
        self._started = clock.monotonic()
        self._mine = LocalShares(clock.boot_us())  # domains, and this worker's own cap
        self._shares = shares if shares is not None else LocalShares(clock.boot_us())
        self._strangers: dict[str, int] = {}  # domain key -> hosts of it that are not owned
        self._caps_mine = those(worker_key(policy))
        self._caps_shared = those(global_key(policy))
        self._lines: Lines[HostState] = Lines()
        self._orders: Orders = NO_ORDERS

    # -- hosts -------------------------------------------------------------------------------------------------------
    def known(self, host: str) -> HostState | None:
        """The state of a host whose durable row was read. None says nothing of its waits: see `load`."""
        return self._hosts.get(host)

    async def load(self, host: str, read: Callable[[str], Awaitable[HostRow | None]]) -> HostState:
        """The state of a host; its row is read the first time, before anything can be asked of it."""
        return self._hosts.get(host) or self.meet(await read(host) or HostRow(host=host))

    def meet(self, row: HostRow, since: float | None = None, *, unsure: bool = False) -> HostState:
        """The state of a host, made from its durable row the first time: it then waits one full gap.

        That counts from the monotonic second `since` on which it is ours (None = from the start); with `unsure` it
        waits as after a death, until `sure`. Who read the row later than another has nothing to add.
        """
        host = row.host
        state = self._hosts.get(host)
        if state is None:
            since = self._started if since is None else since
            state = HostState(row, domain_key(host, self._policy), owned=self._is_owned(host), since=since)
            state.order = self._orders.get(host, NO_ORDER)
            state.unsure = unsure
            self._gap_changed(state, 0.0)
            self._hosts[host] = state
            self._count_stranger(state, 1)
            self._tell_trouble(state)
        return state

    def sure(self, state: HostState) -> None:
        """No request to the host was left unfinished by its last owner: one gap is enough."""
        state.unsure = False
        self._gap_changed(state, self.gap_seconds(state))

    def forget(self, host: str) -> None:
        """The host is somebody else's from now on. Must not be under way."""
        state = self._hosts.pop(host, None)
        if state is not None:
            self.leave_line(state)
            self._count_stranger(state, -1)

    def _gap_changed(self, state: HostState, before: float) -> None:
        """Whatever the host waits for, it waits by the gap in force now; `before` was the old one."""
        gap = self.gap_seconds(state)
        if state.asked:
            state.free_at += gap - before
        elif state.unsure:
            state.free_at = state.since + unfinished_wait_seconds(gap, owned=state.owned)
        else:
            state.free_at = state.since + delays.gap_of_start(state, self._gaps(state))

    def gap_seconds(self, state: HostState) -> float:
        """The gap in force: seconds from the end of a response to the next request."""
        return max(seconds for _, seconds in self._gaps(state))

    def gaps(self, state: HostState) -> list[tuple[str, float]]:
        """What asks for a gap, longest first: (reason, seconds). The first is in force."""
        return sorted(((name, s) for name, s in self._gaps(state) if s > 0), key=lambda part: -part[1])

    def ceilings(self, state: HostState) -> list[str]:
        """The shared things whose ceilings bind the host."""
        return [key.name for keys in self._ledger_keys(state) for key in keys]

    def _gaps(self, state: HostState) -> list[tuple[str, float]]:
        policy = self._policy
        wished = [("delay", policy.delay_seconds), (delays.CRAWL_DELAY, state.crawl_delay_seconds)]
        if state.order.gap_seconds:
            wished.append(("operator", state.order.gap_seconds))
        if state.owned:
            return wished
        latency = state.row.response_us / 1e6 * policy.latency_multiple
        return [("floor", policy.floor_seconds), *wished, ("latency", min(policy.latency_gap_seconds_max, latency))]

    def set_crawl_delay(self, state: HostState, seconds: float) -> None:
        """Obey a crawl-delay of one of the host's authorities; the largest wins, and it counts from the last end."""
        if seconds > state.crawl_delay_seconds:
            before = self.gap_seconds(state)
            state.crawl_delay_seconds = seconds
            self._gap_changed(state, before)

    def is_slow(self, state: HostState) -> bool:
        """Whether the site wants so much time between requests that it is listed as slow."""
        return state.crawl_delay_seconds > SLOW_SECONDS

    # -- the operator's orders ---------------------------------------------------------------------------------------
    def obey(self, orders: Orders) -> set[str]:
        """Orders in force from now on, on top of everything else; the hosts for which something changed."""
        changed = changed_hosts(self._orders, orders)
        self._orders = orders
        for state in [self._hosts[host] for host in changed if host in self._hosts]:
            before = self.gap_seconds(state)
            state.order = orders.get(state.row.host, NO_ORDER)
            self._gap_changed(state, before)
        return changed

    def stopped(self, state: HostState) -> str:
        """Why the operator lets nothing be sent to the host, "" when he does."""
        return state.order.stopped

    # -- addresses and ownership -------------------------------------------------------------------------------------
    def needs_locating(self, state: HostState) -> bool:
        """Whether the host's addresses have to be looked up before a permit: never for hosts of one's own."""
        at = state.located_at
        return not state.owned and (at is None or self._clock.monotonic() - at > LOCATED_SECONDS_MAX)

    def located(self, state: HostState, addresses: Sequence[str]) -> None:
        """Where the host is now, in the resolver's order; [] = nobody knows, and then nothing will be connected to."""
        state.located_at = self._clock.monotonic()
        found = candidates(addresses)
        if found and found != state.addresses:
            state.addresses = found
            state.row = replace(state.row, addresses=" ".join(found))
            state.keys = None
            self._tell_trouble(state)

    def met(self, state: HostState, address: str) -> None:
        """An exchange ended at `address`. A public one is owned only if the site says so: see `prove`."""
        if not is_public(address):
            return
        if not state.public:
            state.public = True
            state.keys = None
        if state.owned and address not in state.addresses:
            self.located(state, [address])
        self._judge_ownership(state)

    def prove(self, state: HostState, authority: str, *, named: bool) -> None:
        """Whether the robots.txt of `authority` has a group that names us."""
        state.proofs[authority] = named
        self._judge_ownership(state)

    def disown(self, state: HostState) -> None:
        """The host turned out to live at a public address: nobody's word makes it ours, and every gap applies."""
        self._set_owned(state, owned=False)

    def _judge_ownership(self, state: HostState) -> None:
        if state.claimed_owned and state.public:
            self._set_owned(state, owned=state.proven)

    def _set_owned(self, state: HostState, *, owned: bool) -> None:
        if owned == state.owned:
            return
        self._count_stranger(state, -1)
        before = self.gap_seconds(state)
        state.owned = owned
        state.keys = None
        self._gap_changed(state, before)
        self._count_stranger(state, 1)

    def _count_stranger(self, state: HostState, change: int) -> None:
        if not state.owned:
            name = state.domain.name
            count = self._strangers.get(name, 0) + change
            self._strangers[name] = count
            if not count:
                del self._strangers[name]

    # -- what hosts share --------------------------------------------------------------------------------------------
    def _shared_keys(self, state: HostState) -> tuple[Key, ...]:
        """Platform and addresses. A host of one's own is free of those whose every host is: private or listed ones."""
        if state.keys is None:
            addresses = [a for a in state.addresses if not (state.owned and self._all_owned(a))]
            platform = platform_key(state.row.host, self._policy)
            free = state.owned and not state.public
            if state.owned and state.public and state.addresses and not addresses:
                free = True
            found = () if platform is None or free else (platform,)
            state.keys = (*found, *address_keys(addresses, self._policy))
        return state.keys

    def _all_owned(self, address: str) -> bool:
        return not is_public(address) or self._owns_address(address)

    def _domain_keys(self, state: HostState) -> tuple[Key, ...]:
        return () if state.owned and state.domain.name not in self._strangers else (state.domain,)

    def _blocked(self, state: HostState, *, ahead: bool = False) -> Blocked | None:
        """The shared thing that forbids a start now, a line before the host included unless it goes `ahead`."""
        now_us = self._clock.boot_us()
        mine, shared = self._ledger_keys(state)
        for key in () if ahead else (*mine, *shared):
            if key.name != state.called and self._lines.others_first(key.name, state):
                return Blocked(key, max(1, self._key_wait_us(key)))
        found = [b for b in (self._mine.blocked(mine, now_us), shared and self._shares.blocked(shared, now_us)) if b]
        return max(found, key=lambda blocked: blocked.us) if found else None

    def _ledger_keys(self, state: HostState) -> tuple[tuple[Key, ...], tuple[Key, ...]]:
        mine = (*self._caps_mine, *self._domain_keys(state))
        return mine, (*self._caps_shared, *self._shared_keys(state))

    def _key_wait_us(self, key: Key) -> int:
        now_us = self._clock.boot_us()
        shares: Shares = self._mine if key.local else self._shares
        blocked = shares.blocked((key,), now_us)
        return blocked.us if blocked is not None else 0

    def _budget_in(self) -> float:
        """Seconds until the budget has something left: 0, or those to the end of the UTC day."""
        if self._policy.budget_per_day <= 0:
            return 0.0
        now_us = self._clock.wall_us()
        if self._shares.requests(now_us // _DAY_US) < self._policy.budget_per_day:
            return 0.0
        return (_DAY_US - now_us % _DAY_US) / 1e6

    # -- permits -----------------------------------------------------------------------------------------------------
    def ready_in(self, state: HostState, *, ahead: bool = False) -> float:
        """Seconds until the host may be asked; 0 or less = now. A busy host is not ready: ask again a little later.

        `ahead`: hosts that stand in line for the same thing do not count, for a request that holds up another one.
        """
        own = self._own_ready_in(state)
        if own > 0:
            return own
        budget = self._budget_in()
        if budget > 0:
            return budget
        blocked = self._blocked(state, ahead=ahead)
        return own if blocked is None else blocked.us / 1e6

    def _own_ready_in(self, state: HostState) -> float:
        if state.order is not NO_ORDER and state.order.stopped:
            return STOPPED_SECONDS
        gap = state.free_at - self._clock.monotonic()
        wait = (state.row.wait_us - self._clock.wall_us()) / 1e6 if state.row.wait_us else 0.0
        undecided = breaker.undecided(state.row, state.unjudged)
        busy = BUSY_SECONDS if state.busy or undecided else 0.0
        return max(gap, wait, busy)

    def line_up(self, state: HostState) -> float:
        """`ready_in` for a host that has something to send: where others are before it, it stands in line.

        Then it will be among those that `call` names, and the answer is only how long to wait for that at most.
        """
        own = self._own_ready_in(state)
        if own <= 0:
            own = max(own, self._budget_in())
        blocked = self._blocked(state) if own <= 0 else None
        turn, state.called = state.called, ""
        if blocked is None:
            if own > 0:
                self.leave_line(state)
                self._pass_on(turn)
            else:
                state.called = turn
            return own
        if turn != blocked.key.name:
            self._pass_on(turn)
        self._lines.park(blocked.key, state, self._clock.boot_us() + blocked.us)
        return PARKED_SECONDS

    def crowded(self, state: HostState) -> bool:
        """Whether hosts stand in line for something that this one shares with them."""
        mine, shared = self._ledger_keys(state)
        return any(self._lines.waiting(key.name) for key in (*mine, *shared))

    def leave_line(self, state: HostState) -> None:
        """The host has nothing to send after all; its turn goes to the next."""
        self._lines.leave(state)
        turn, state.called = state.called, ""
        self._pass_on(turn)

    def _pass_on(self, turn: str) -> None:
        if turn:
            self._lines.freed(turn, self._clock.boot_us())

    def call(self) -> list[str]:
        """Hosts in line whose turn has come."""
        called = self._lines.call(self._clock.boot_us(), self._key_wait_us)
        return [state.row.host for state in called]

    def next_call_in(self) -> float | None:
        """Seconds until `call` may name somebody; None = nobody stands in line."""
        next_us = self._lines.next_us()
        return None if next_us is None else (next_us - self._clock.boot_us()) / 1e6

    def permit(self, state: HostState, *, ahead: bool = False) -> Permit | None:
        """The permit for one exchange, now or not at all. `ahead`: see `ready_in`."""
        if state.busy or self.ready_in(state, ahead=ahead) > 0:
            return None
        now_us, day, budget = self._clock.boot_us(), self._clock.wall_us() // _DAY_US, self._policy.budget_per_day
        mine, shared = self._ledger_keys(state)
        if (shared or budget) and not self._shares.take(shared, now_us, day=day, budget=budget):
            return None
        if mine and not self._mine.take(mine, now_us, day=day, budget=0):
            self._return_shares(shared, day)
            return None
        state.busy = True
        state.called = ""
        self._lines.leave(state)
        return Permit(state, self.gap_seconds(state), mine, shared, day)

    def end(self, permit: Permit, duration_us: int, *, sent: bool = True, counts: bool = True) -> None:
        """The exchange is over (its connection closed): the gap begins. With `sent` False nothing was tried at all.

        `counts` False: no request went out (no address, refused by the gate), so the day's budget has it back.
        """
        state = permit.state
        state.busy = False
        self._mine.give(permit.mine)
        if permit.shared:
            self._shares.give(permit.shared)
        now_us = self._clock.boot_us()
        for key in (*permit.mine, *permit.shared):
            self._lines.freed(key.name, now_us)
        if not (sent and counts) and self._policy.budget_per_day > 0:
            self._shares.refund(permit.day)
        if sent:
            state.row = replace(state.row, response_us=duration_us)
            state.free_at = self._clock.monotonic() + self.gap_seconds(state)
            state.asked = True

    def _return_shares(self, shared: tuple[Key, ...], day: int) -> None:
        self._shares.give(shared)
        if self._policy.budget_per_day > 0:
            self._shares.refund(day)

    # -- waits -------------------------------------------------------------------------------------------------------
    def wait_until(self, state: HostState, until_us: int, reason: str) -> HostRow:
        """Hold the host until durable time `until_us`; never shortens a wait. The row to persist."""
        if until_us > state.row.wait_us:
            state.row = replace(state.row, wait_us=until_us, wait_reason=reason)
            self._tell_trouble(state)
        return state.row

    def _tell_trouble(self, state: HostState) -> None:
        """A host that was told to wait speaks for its addresses too: three of them hold an address back."""
        left_us = state.row.wait_us - self._clock.wall_us()
        if left_us <= 0 or state.row.wait_reason not in TOLD_TO_WAIT:
            return
        now_us = self._clock.boot_us()
        for key in address_keys(state.addresses, self._policy):
            self._shares.trouble(key, state.row.host, now_us + left_us, now_us)

    def hold(self, state: HostState) -> HostRow:
        """A request of the last owner may be unfinished: two gaps from now on. The row to persist: it outlives us."""
        seconds = unfinished_wait_seconds(self.gap_seconds(state), owned=state.owned)
        return self.wait_until(state, self._clock.wall_us() + int(seconds * 1e6), UNFINISHED)

    def unfinished(self, state: HostState, longest_seconds: float = 0.0) -> HostRow:
        """The row to persist where a request may stay unfinished: whoever starts next then waits two gaps.

        `longest_seconds`: how long the request may still take. Nothing changes for this process: it will see the end.
        """
        seconds = longest_seconds + unfinished_wait_seconds(self.gap_seconds(state), owned=state.owned)
        until_us = self._clock.wall_us() + int(seconds * 1e6)
        if until_us <= state.row.wait_us:
            return state.row
        return replace(state.row, wait_us=until_us, wait_reason=UNFINISHED)

    # -- answers -----------------------------------------------------------------------------------------------------
    def failing(self, state: HostState, *, good: bool) -> None:
        """Count answers that mean trouble, for the length of the next wait; a good answer resets."""
        state.row = replace(state.row, failing=0 if good else state.row.failing + 1)
        if good:
            state.last_good_us = self._clock.wall_us()

    def awaits(self, state: HostState) -> None:
        """An answer of the host will be judged: `answered` follows, or `overlooked`."""
        state.unjudged += 1

    def overlooked(self, state: HostState) -> None:
        """The answer says nothing of the host after all."""
        state.unjudged = max(0, state.unjudged - 1)

    def probes(self, state: HostState) -> bool:
        """Whether the host's next answer decides if it is asked any more."""
        return breaker.probes(state.row)

    def answered(self, state: HostState, answer: Answer) -> bool:
        """Feed the breaker. True: the host was in trouble for a week, and everything that waits for it is given up."""
        now_us = self._clock.wall_us()
        state.row = breaker.counted(state.row, answer)
        if not breaker.opens(state.row, answer, now_us):
            return False
        if breaker.gives_up(state.row, now_us):
            state.row = breaker.forgotten(state.row)
            return True
        state.row = breaker.opened(state.row, now_us, self._fraction())
        return False

    def unsaved(self, state: HostState) -> HostRow | None:
        """The row, when it differs from the last one handed out in what a restart would need; else None."""
        delays.hold(state, self._clock.monotonic(), self._clock.wall_us())
        old, new = state.saved, state.row
        matters = self._policy.floor_seconds * 1e6 / max(self._policy.latency_multiple, 1e-9)
        slower = not state.owned and new.response_us > max(matters, 1.2 * old.response_us)
        if not slower and lasting(old) == lasting(new):
            return None
        state.saved = new
        return new

    # -- explanations ------------------------------------------------------------------------------------------------
    def explain(self, host: str) -> list[tuple[str, float]]:
        """Why the host is asked as seldom as it is: (reason, seconds) of the gap in force and of what it waits for now.

        The gap's parts come first, longest first; then what remains of waits. [] for a host never met.
        """
        state = self._hosts.get(host)
        if state is None:
            return []
        parts = self.gaps(state)
        if state.order.stopped:
            parts.append((state.order.stopped, STOPPED_SECONDS))
        left = (state.row.wait_us - self._clock.wall_us()) / 1e6 if state.row.wait_us else 0.0
        if left > 0:
            parts.append((f"wait: {state.row.wait_reason}", left))
        if (since_end := state.free_at - self._clock.monotonic()) > 0:
            parts.append(("rest of the gap" if state.asked else "start wait", since_end))
        if (budget := self._budget_in()) > 0:
            parts.append(("budget of the day is used up", budget))
        blocked = self._blocked(state)
        if blocked is not None:
            parts.append((f"ceiling: {blocked.key.name}", blocked.us / 1e6))
        return parts
