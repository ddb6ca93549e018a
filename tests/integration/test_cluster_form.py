"""The cluster form on real servers: `init`, the four roles as processes, `add`, and their ends."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from e2e.cluster.pulled import objections
from e2e.cluster.servers_up import ClusterServers, missing_programs
from e2e.cluster.ticking import seconds
from e2e.processes import wait_until
from integration.cluster_reading import states_of
from limpet.clock import DurableClock, SystemClock
from limpet.cluster.remote import open_remote
from limpet.cluster.run import ROLES
from limpet.cluster.settings import load_cluster_settings
from limpet.reconciler.standing import LEASES_INCARNATIONS, OUTCOMES_RECORDS, POSITIONS_LOGS
from limpet.runtime import SystemRandom
from limpet.urlstore import RepairItem
from origin.process import OriginProcess

pytestmark = pytest.mark.servers

LIMPET: Final = (sys.executable, "-m", "limpet.cli.entry")
SHARDS: Final = 4
CRAWL_SECONDS_MAX: Final = 120.0
DRAIN_SECONDS_MAX: Final = 30.0
ORDER_SECONDS_MAX: Final = 60.0
LEASE_SECONDS: Final = 20.0
DESERVED: Final = {"page": "fetched", "redirect": "fetched", "gone": "gone", "denied": "denied"}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterServers]:
    """All of them, one node each."""
    if missing := missing_programs():
        pytest.skip(f"the cluster takes {', '.join(missing)}, which this machine lacks")
    with ClusterServers(tmp_path_factory.mktemp("servers"), shards=SHARDS) as found:
        yield found


def configuration(servers: ClusterServers, folder: Path, name: str, *, scope: str = "any") -> Path:
    """limpet.toml of a crawl of its own, without the proxies."""
    path = folder / f"{name}.toml"
    path.write_text(
        f"""
owned = ["127.0.0.0/8"]
min_free_bytes = 0
[politeness]
floor_seconds = 0.0
[crawl]
shards = {SHARDS}
scope = "{scope}"
depth = 100
[rules]
owned_hosts_only = true
[work]
drain_seconds_max = {DRAIN_SECONDS_MAX}
[cluster]
folder = "{folder / "run"}"
[cassandra]
contact_points = {json.dumps(servers.contact_points)}
port = {servers.cassandra_port}
keyspace = "{name}"
replication = 1
[kafka]
bootstrap = "{servers.bootstrap}"
prefix = "{name}"
replication = 1
min_insync = 1
[hdfs]
url = "{servers.namenode_url}"
namenodes_http = ["{servers.namenode_http}"]
root = "/limpet/{name}"
min_free_bytes = 0
[seen]
addresses = {json.dumps(servers.seen_addresses)}
"""
    )
    return path


def limpet(*words: str | Path, seconds_max: float = 90.0) -> "subprocess.CompletedProcess[str]":
    """One command to its end. One that hangs tells where."""
    command = [*LIMPET, *map(str, words)]
    environment = {**os.environ, "PYTHONFAULTHANDLER": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=seconds_max)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
            stdout, stderr = process.communicate()
            raise AssertionError(f"{command} hung:\n{stderr}") from None
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


class Process:
    """A role at work; its log is read while it runs."""

    def __init__(self, role: str, config: Path, log: Path) -> None:
        self.log = log
        with log.open("wb") as output:
            self.popen = subprocess.Popen(
                [*LIMPET, "run", role, "--config", str(config)], stderr=output, stdout=output, start_new_session=True
            )

    def page(self, name: str) -> tuple[int, Any]:
        """Status and body of a health page, once the process listens; (0, None) before."""
        for line in self.log.read_text(errors="replace").splitlines():
            if " listening " in line:
                url = line.split(f" {name}=", 1)[1].split(" ", 1)[0]
                try:
                    with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - loopback
                        return answer.status, json.loads(answer.read())
                except urllib.error.HTTPError as error:
                    return error.code, json.loads(error.read())
        return 0, None

    def metrics(self) -> dict[str, float]:
        """Series without labels, and sums of those with."""
        line = next(line for line in self.log.read_text(errors="replace").splitlines() if " listening " in line)
        url = line.split(" live=", 1)[1].split(" ", 1)[0].removesuffix("/live")
        with urllib.request.urlopen(f"{url}/metrics", timeout=5) as answer:  # noqa: S310 - loopback
            lines = answer.read().decode().splitlines()
        found: dict[str, float] = {}
        for series, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#")):
            name = series.partition("{")[0]
            found[name] = found.get(name, 0.0) + float(value)
        return found

    def wait(self) -> int:
        """Its exit code."""
        return self.popen.wait(DRAIN_SECONDS_MAX + 10)

    def close(self) -> None:
        """Kill what is left."""
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait()


@pytest.fixture
def processes() -> Iterator[dict[str, Process]]:
    """Roles by name, killed in the end."""
    found: dict[str, Process] = {}
    yield found
    for process in found.values():
        process.close()


def test_init_may_be_repeated_and_refuses_other_facts(servers: ClusterServers, tmp_path: Path) -> None:
    """The second run changes nothing; another scope is refused with both values, by `init` and by a role."""
    config = configuration(servers, tmp_path, "facts")
    first = limpet("init", "--config", config, "--json")
    assert first.returncode == 0, first
    report = json.loads(first.stdout)
    assert (report["shards"], report["seen_shards"]) == (SHARDS, SHARDS)
    assert "links.discovered.dead" in report["topics"]
    assert len(report["migrations"]) >= 4
    again = limpet("init", "--config", config, "--json")
    assert json.loads(again.stdout) == {**report, "migrations": [], "topics": []}
    other = configuration(servers, tmp_path, "facts", scope="host")
    for words in (("init",), ("run", "parser"), ("add",)):
        urls = ["http://127.0.0.1/"] if words == ("add",) else []
        refused = limpet(*words, "--config", other, *urls)
        assert refused.returncode == 2, refused
        assert "crawl.scope is 'any' in this crawl, but 'host' was asked for" in refused.stderr


def test_a_keyspace_without_a_crawl_ends_a_role(servers: ClusterServers, tmp_path: Path) -> None:
    """It says what to do, and does not loop."""
    config = configuration(servers, tmp_path, "nothing")
    refused = limpet("run", "admission", "--config", config)
    assert refused.returncode in {2, 4}
    assert "limpet init" in refused.stderr


def test_four_roles_crawl_a_web_and_end_in_order(
    servers: ClusterServers, tmp_path: Path, processes: dict[str, Process]
) -> None:
    """Every URL of the web ends as it deserves; SIGTERM drains each role in time, and nothing stays leased."""
    config = configuration(servers, tmp_path, "crawl")
    assert limpet("init", "--config", config).returncode == 0
    with OriginProcess("kill", log_path=tmp_path / "origin.log", pages=60, hosts=3, crawl_delay_seconds=0.05) as origin:
        added = limpet("add", "--config", config, *origin.seeds)
        assert added.returncode == 0, added
        assert limpet("add", "--config", config, *origin.seeds).stdout == "0 URLs added, 3 known already\n"
        for role in ROLES:
            processes[role] = Process(role, config, tmp_path / f"{role}.log")
        wait_until(lambda: all(p.page("ready")[0] == 200 for p in processes.values()), "readiness", 60)
        expected = origin.web.expected()
        settled = Counter(DESERVED[kind] for kind in expected.values())
        wait_until(lambda: Counter(states_of(config).values()) == settled, "the web", CRAWL_SECONDS_MAX)
        assert states_of(config) == {url: DESERVED[kind] for url, kind in expected.items()}
        assert processes["crawlnode"].page("live") == (200, processes["crawlnode"].page("live")[1])
        assert processes["crawlnode"].page("ready")[1]["holds"]["shards"] == list(range(SHARDS))
        assert_orders_are_obeyed(config, origin.seeds[0])
        assert_metrics(processes, len(expected))
        begun = seconds()
        for process in processes.values():
            process.popen.send_signal(signal.SIGTERM)
        codes = {role: process.wait() for role, process in processes.items()}
        assert codes == dict.fromkeys(ROLES, 0)
        assert seconds() - begun < DRAIN_SECONDS_MAX
    assert set(states_of(config).values()) <= set(DESERVED.values())
    assert_reconciled(config)
    assert_verbs_read(config, states_of(config))
    assert_pulls_sound(config, tmp_path / "pulled", Counter(states_of(config).values()))


def assert_orders_are_obeyed(config: Path, seed: str) -> None:
    """`hosts` lists what was met; a URL of a host that is blocked is cancelled, and fetched once it is resumed."""
    host, url = seed.split("/")[2].partition(":")[0], f"{seed}ordered"
    met = {row["host"]: row for row in json.loads(limpet("hosts", "--config", config, "--json").stdout)}
    assert met[host]["queued"] is None
    assert sum(row["urls"] for row in met.values()) == len(states_of(config))
    assert json.loads(limpet("hosts", "--config", config, host, "--json").stdout)["queued"] == 0
    blocked = limpet("hosts", "--config", config, "block", host, "--json")
    assert json.loads(blocked.stdout)["running"] is True, blocked
    limpet("add", "--config", config, url)
    wait_until(lambda: states_of(config).get(url) == "cancelled", "the block", ORDER_SECONDS_MAX)
    limpet("hosts", "--config", config, "resume", host)
    wait_until(lambda: states_of(config)[url] == "gone", "the end of the block", ORDER_SECONDS_MAX)


def assert_metrics(processes: dict[str, Process], urls: int) -> None:
    """Each role tells what it holds; the crawl node the age of its lease, the reconciler the age of its counts."""
    told = {role: process.metrics() for role, process in processes.items()}
    for role, numbers in told.items():
        assert numbers["limpet_ready"] == 1, role
        assert numbers["limpet_shards_held"] == SHARDS, role
        assert numbers["limpet_cassandra_statements_total"] > 0, role
        assert numbers["limpet_receipts_unclean_total"] == 0, role
    assert 0 <= told["crawlnode"]["limpet_lease_age_seconds"] < LEASE_SECONDS
    assert told["crawlnode"]["limpet_receipt_commands_max"] > 0
    assert told["reconciler"]["limpet_repairs"] == 0
    assert told["reconciler"]["limpet_urls"] <= urls


def assert_reconciled(config: Path) -> None:
    """A crawl that ended in order has nothing that disagrees; an open repair item is a finding, with its age."""
    sound = limpet("reconcile", "--config", config, "--json")
    assert sound.returncode == 0, sound
    told = {one["comparison"]: (one["findings"], one["detail"]) for one in json.loads(sound.stdout)["compared"]}
    assert told[LEASES_INCARNATIONS] == (0, f"0 of {SHARDS} shards are owned")
    assert told[POSITIONS_LOGS] == (0, "0 messages are unread")
    assert told[OUTCOMES_RECORDS] == (0, "0 segments are not sealed")
    asyncio.run(turn_item(config, is_open=True))
    asked = limpet("reconcile", "--config", config, "--json")
    asyncio.run(turn_item(config, is_open=False))
    assert asked.returncode == 1, asked
    (item,) = json.loads(asked.stdout)["repairs"]
    assert (item["kind"], item["subject"]) == ("test", "a thing")
    assert item["age_seconds"] >= 3_600


async def turn_item(config: Path, *, is_open: bool) -> None:
    """Open or close a repair item of an hour ago."""
    clock = DurableClock(SystemClock())
    async with open_remote(load_cluster_settings(config), clock, SystemRandom()) as crawl:
        store = crawl.store(1)
        if is_open:
            hour_ago_us = clock.wall_us() - 3_600_000_000
            await store.put_repair(RepairItem(kind="test", subject="a thing", detail="", created_us=hour_ago_us))
        else:
            await store.close_repair("test", "a thing")


def assert_verbs_read(config: Path, states: dict[str, str]) -> None:
    """`urls`, `show` and `failures` tell what the rows say; `--retry` makes what failed due again."""
    assert states_in(limpet("urls", "--config", config, "--json")) == states
    gone = {url for url, state in states.items() if state == "gone"}
    assert set(limpet("urls", "--config", config, "--state", "gone").stdout.split()) == gone
    shown = json.loads(limpet("show", "--config", config, min(gone), "--json").stdout)
    assert (shown["state"], shown["reason"]) == ("gone", f"http_{shown['outcomes'][0]['status']}")
    assert shown["via"] in states
    unknown = limpet("show", "--config", config, "http://127.0.0.1/nowhere", "--json")
    assert (unknown.returncode, json.loads(unknown.stdout)["known"]) == (2, False)
    hosts = json.loads(limpet("report", "--config", config, "--by", "host", "--json").stdout)
    assert sum(host["urls"] for host in hosts) == len(states)
    reasons = limpet("report", "--config", config, "--by", "reason").stdout
    assert f"fetched\t{list(states.values()).count('fetched')}\t-\t-" in reasons
    logged = [json.loads(line) for line in limpet("log", "--config", config, "--json").stdout.splitlines()]
    asked = {url for url, state in states.items() if state != "denied"}
    assert {entry["url"] for entry in logged if not entry["url"].endswith("/robots.txt")} == asked
    assert {entry["source"] for entry in logged} <= {entry["url"] for entry in logged if not entry["via"]}
    for words in (("verify", "--links"), ("audit",)):
        judged = limpet(*words, "--config", config, "--json")
        assert judged.returncode == 0, judged
        assert json.loads(judged.stdout)["checked"]["segments"] == 1
    failed = limpet("failures", "--config", config, "--json")
    assert (failed.returncode, states_in(failed)) == (1, dict.fromkeys(gone, "gone"))
    assert limpet("failures", "--config", config, "--retry").stdout == f"{len(gone)} URLs due again\n"
    assert states_in(limpet("urls", "--config", config, "--state", "due", "--json")) == dict.fromkeys(gone, "due")
    assert limpet("failures", "--config", config).returncode == 0


def states_in(listing: "subprocess.CompletedProcess[str]") -> dict[str, str]:
    """URL -> state."""
    return {row["url"]: row["state"] for row in json.loads(listing.stdout)}


def assert_pulls_sound(config: Path, into: Path, states: Counter[str]) -> None:
    """What `pull` makes of it is a crawl folder in which nothing is missing and no rule was broken, and valid WARC."""
    pulled = limpet("pull", "--config", config, "--into", into, "--json")
    assert pulled.returncode == 0, pulled
    assert json.loads(pulled.stdout) == {"urls": states.total(), "segments": 1, "growing": []}
    for verb in ("verify", "audit"):
        judged = limpet(verb, into, "--json")
        assert judged.returncode == 0, judged
        assert json.loads(judged.stdout)["findings"] == []
    assert list(objections(sorted(into.glob("**/*.warc.gz")))) == []
    rows = json.loads(limpet("urls", into, "--json").stdout)
    assert Counter(row["state"] for row in rows) == states
    again = limpet("pull", "--config", config, "--into", into)
    assert again.returncode == 2, again
    assert "holds a crawl already" in again.stderr
    marked = limpet("rebuild-seen", "--config", config, "--json")
    assert marked.returncode == 0, marked
    assert sum(json.loads(marked.stdout)["marked"].values()) == states.total()
    told = limpet("status", "--config", config, "--json")
    assert told.returncode == 0, told
    assert json.loads(told.stdout)["today"]["fetches"] >= states.total() - states["denied"]
