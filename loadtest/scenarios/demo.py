"""`make crawl`: serve the small web that ships with Limpet on loopback and crawl it with the real command.

    PYTHONPATH=loadtest python -m scenarios.demo --into crawl

Ends with the crawl's own exit code. Run it again and it resumes; the site listens on the same port each time.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from origin import OriginProcess

PORT = 8480
OWNED = "127.0.0.0/8"


def main() -> int:
    """Serve, crawl, check; the exit code of the first step that found something."""
    parser = argparse.ArgumentParser(description="crawl the demo web")
    parser.add_argument("--into", default="crawl", help="folder of the crawl")
    parser.add_argument("--port", type=int, default=PORT, help="port the demo web listens on")
    options = parser.parse_args()
    limpet = str(Path(sys.executable).with_name("limpet"))
    with (
        tempfile.TemporaryDirectory() as logs,
        OriginProcess("demo", log_path=Path(logs) / "origin.jsonl", port=options.port) as origin,
    ):
        crawl = [limpet, "crawl", *origin.seeds, "--into", options.into, "--owned", OWNED]
        print("$", " ".join(crawl), flush=True)
        code = subprocess.run(crawl, check=False).returncode
    for verb in ("verify", "audit"):
        print("$ limpet", verb, options.into, flush=True)
        code = code or subprocess.run([limpet, verb, options.into], check=False).returncode
    return code


if __name__ == "__main__":
    sys.exit(main())
