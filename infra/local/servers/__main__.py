"""`python -m servers fetch|up|status|down`: the servers for people. Exits: 0 done, 1 something is down, 2 trouble."""

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from servers.folder import Folder, Form, read
from servers.service import Service
from servers.trouble import Trouble
from servers.which import SERVICES, service

BEGAN = time.monotonic()


def main(words: list[str] | None = None) -> int:
    """Run one verb."""
    asked = _arguments().parse_args(words)
    try:
        folder = Folder.at(asked.folder)
        names = [name for name in asked.which.split(",") if name] or list(SERVICES)
        chosen = [service(name, folder, _form(folder, name, asked.form), say=_say) for name in names]
        if asked.verb == "fetch":
            return _fetch(chosen)
        if asked.verb == "up":
            return _up(folder, chosen)
        if asked.verb == "down":
            return _down(chosen)
        return _status(chosen, as_json=asked.json)
    except Trouble as trouble:
        print(f"servers: {trouble}", file=sys.stderr)
        return 2


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="servers", description="real servers on loopback, without containers")
    parser.add_argument("verb", choices=("fetch", "up", "status", "down"))
    parser.add_argument("--folder", default=".servers", help="where they live (default: %(default)s)")
    parser.add_argument("--form", choices=("", "single", "three"), default="", help="nodes of Kafka and Cassandra")
    parser.add_argument("--which", default="", help=f"some of {','.join(SERVICES)} (default: all)")
    parser.add_argument("--json", action="store_true", help="status as JSON")
    return parser


def _form(folder: Folder, name: str, asked: Form | None) -> Form:
    """What was asked, else what the folder holds, else single."""
    return asked or read(folder.path / name / "form.json").get("form") or "single"


def _say(line: str) -> None:
    print(f"{time.monotonic() - BEGAN:6.1f} s  {line}", flush=True)


def _fetch(chosen: list[Service]) -> int:
    for one in chosen:
        one.download()
    return 0


def _up(folder: Folder, chosen: list[Service]) -> int:
    _fetch(chosen)
    with ThreadPoolExecutor(len(chosen)) as pool:  # each waits for its own
        started = [pool.submit(one.up) for one in chosen]
    troubles = [error for future in started if (error := future.exception()) is not None]
    for error in troubles:
        if not isinstance(error, Trouble):
            raise error
        print(f"servers: {error}", file=sys.stderr)
    if troubles:
        return 2
    print(f"endpoints: {folder.endpoints_path}")
    return 0


def _down(chosen: list[Service]) -> int:
    for one in chosen:
        _say(f"{one.name}: {one.down()} ended")
    return 0


def _status(chosen: list[Service], *, as_json: bool) -> int:
    found: dict[str, dict[str, Any]] = {}
    for one in chosen:
        for node in one.nodes:
            alive = node.alive
            found[node.name] = {
                "state": "dead" if not alive else "serving" if one.answers(node) else "silent",
                "pid": node.process.pid if alive and node.process else None,
                "ports": node.ports,
                "megabytes": node.process.memory_bytes >> 20 if alive and node.process else 0,
            }
    if as_json:
        print(json.dumps(found, indent=1))
    else:
        for name, state in found.items():
            print(f"{name:14} {state['state']:8} {state['pid'] or '-':>8} {state['megabytes']:6} MB  {state['ports']}")
    return 0 if all(state["state"] == "serving" for state in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
