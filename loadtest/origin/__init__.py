"""The web that is crawled in tests, demo and benchmark, and the witness that judges the crawler by its own log.

A program apart: it imports nothing of the crawler, so that no misunderstanding of politeness can be shared.

- `webs`: what is served, each web a pure function of seed, host and path
- `server`, `wire`, `log`: how it is served, and what is written down about it
- `events`, `visits`, `judge`: what the log says, and which promises were broken
- `process`: the whole as a child process

On the command line: `python -m origin serve|judge|expected`.
"""

from origin.events import Event, read_events
from origin.judge import Policy, Verdict, Violation, examine, judge
from origin.process import OriginProcess
from origin.visits import requests_by_url
from origin.web import HostRules, Kind, Web
from origin.webs import WEBS, make_web, web_of

__all__ = [
    "WEBS",
    "Event",
    "HostRules",
    "Kind",
    "OriginProcess",
    "Policy",
    "Verdict",
    "Violation",
    "Web",
    "examine",
    "judge",
    "make_web",
    "read_events",
    "requests_by_url",
    "web_of",
]
