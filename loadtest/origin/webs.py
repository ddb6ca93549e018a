"""The webs by name."""

from collections.abc import Callable, Iterable

from origin.bench import BenchWeb
from origin.demo import DemoWeb
from origin.events import Event, Started
from origin.kill import KillWeb
from origin.rude import RudeWeb
from origin.web import Option, Web, create

WEBS: dict[str, Callable[..., Web]] = {web.name: web for web in (BenchWeb, DemoWeb, KillWeb, RudeWeb)}


def make_web(name: str, *, seed: int, port: int, **options: Option) -> Web:
    """The web called `name` as served on `port`. ValueError names an unknown web or option."""
    return create(WEBS, name, seed=seed, port=port, **options)


def web_of(events: Iterable[Event]) -> Web:
    """The web that a log says was served last, built again. LookupError if it says none."""
    starts = [event for event in events if isinstance(event, Started)]
    if not starts:
        raise LookupError("the log has no start of an origin: which web was served is unknown")
    return make_web(starts[-1].web, seed=starts[-1].seed, port=starts[-1].port, **starts[-1].options)
