"""Real servers on loopback, without containers: what the cluster adapters are proven against.

`python -m servers up` is for people; tests use the same things as a library: start one server, kill, freeze, restart on
the same ports and data, wipe. Nothing here imports Limpet, and only processes that were started here are signalled.
"""

from servers.folder import Folder, Form
from servers.node import Node
from servers.processes import Process
from servers.proxy import CutAfter, Proxy, cut, drop, forward
from servers.service import Service
from servers.trouble import Trouble
from servers.which import SERVICES, service

__all__ = [
    "SERVICES",
    "CutAfter",
    "Folder",
    "Form",
    "Node",
    "Process",
    "Proxy",
    "Service",
    "Trouble",
    "cut",
    "drop",
    "forward",
    "service",
]
