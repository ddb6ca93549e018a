"""HDFS: one NameNode and three DataNodes, replication 3, in either form."""

import json
import subprocess
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final
from xml.sax.saxutils import escape

from servers import ports
from servers.jars import Jars, jvm
from servers.node import Node
from servers.service import Service
from servers.trouble import Trouble

JARS: Final = Jars(
    "hadoop-3.4.2",
    (
        "org.apache.hadoop:hadoop-common:3.4.2",
        "org.apache.hadoop:hadoop-hdfs:3.4.2",
        "org.apache.hadoop:hadoop-hdfs-client:3.4.2",
    ),
)
HEAP_MEGABYTES: Final = 256
DATANODES: Final = 3
NAMENODE: Final = "namenode"
OPENED: Final = ("java.lang", "java.util", "sun.nio.ch", "java.nio")
# The daemons insist on these folders, which the archives do not bring.
WEB_APPS: Final = ("hdfs", "datanode", "static", "secondary", "journal")
WEB_XML: Final = '<web-app xmlns="http://java.sun.com/xml/ns/javaee" version="2.5"/>\n'
LOG4J: Final = """\
log4j.rootLogger=WARN,OUT
log4j.appender.OUT=org.apache.log4j.ConsoleAppender
log4j.appender.OUT.layout=org.apache.log4j.PatternLayout
log4j.appender.OUT.layout.ConversionPattern=%d %p %c{1} %m%n
"""
NAMENODE_STATE: Final = "NameNode,name=FSNamesystemState"
NAMENODE_INFO: Final = "NameNode,name=NameNodeInfo"
DATANODE_INFO: Final = "DataNode,name=DataNodeInfo"
DATA_PORTS: Final = ("data", "ipc", "http")
HEARTBEATS_MISSED_MAX: Final = 3
# A dead DataNode is noticed after 2 x recheck + 10 x heartbeat: 20 s instead of ten minutes.
SETTINGS: Final[Mapping[str, str]] = {
    "dfs.replication": "3",
    "dfs.permissions.enabled": "false",
    "dfs.namenode.safemode.extension": "0",
    "dfs.namenode.heartbeat.recheck-interval": "5000",
    "dfs.heartbeat.interval": "1",
    "dfs.namenode.stale.datanode.interval": "5000",
    # The driver takes whatever pipeline it is given, and whoever reads a growing block asks the DataNode named first:
    # neither shall meet one that has been silent for a while.
    "dfs.namenode.avoid.write.stale.datanode": "true",
    "dfs.namenode.avoid.read.stale.datanode": "true",
    # With three DataNodes none is busier than it may be: every pipeline shall have them all.
    "dfs.namenode.redundancy.considerLoad": "false",
    "dfs.namenode.fs-limits.min-block-size": "65536",
    "dfs.client.block.write.replace-datanode-on-failure.enable": "true",
    "dfs.client.block.write.replace-datanode-on-failure.policy": "DEFAULT",
    "dfs.client.block.write.replace-datanode-on-failure.best-effort": "true",
    "dfs.client.block.write.replace-datanode-on-failure.min-replication": "2",
    "dfs.datanode.synconclose": "true",
    "dfs.namenode.datanode.registration.ip-hostname-check": "false",
    "dfs.webhdfs.enabled": "true",
}


class Hdfs(Service):
    """See `Service`. Endpoints: `namenode` (hdfs://…), `namenode_http`, `datanodes` (name -> HTTP address)."""

    name: ClassVar = "hdfs"
    programs: ClassVar = ("java", "mvn")
    megabytes: ClassVar = {"single": 1000, "three": 1000}
    seconds_max: ClassVar = 120.0

    def plan(self) -> list[Node]:
        """The NameNode first."""
        names = [NAMENODE, *(f"datanode-{number}" for number in range(1, DATANODES + 1))]
        return [Node(name, self.root / name) for name in names]

    def choose_ports(self) -> dict[str, dict[str, int]]:
        """RPC and HTTP of the NameNode; data, IPC and HTTP of each DataNode."""
        free = iter(ports.choose(2 + 3 * DATANODES))
        return {
            node.name: {purpose: next(free) for purpose in (("rpc", "http") if node.name == NAMENODE else DATA_PORTS)}
            for node in self.nodes
        }

    def download(self) -> None:
        """The jars."""
        JARS.fetch(self.folder, self.say)

    def prepare(self, node: Node) -> None:
        """Its configuration; the NameNode formatted once."""
        conf = node.folder / "conf"
        for app in WEB_APPS:
            (conf / "webapps" / app / "WEB-INF").mkdir(parents=True, exist_ok=True)
        for app in WEB_APPS[:2]:
            (conf / "webapps" / app / "WEB-INF" / "web.xml").write_text(WEB_XML)
        (conf / "log4j.properties").write_text(LOG4J)
        (conf / "core-site.xml").write_text(xml(self._core(node)))
        (conf / "hdfs-site.xml").write_text(xml(self._hdfs(node)))
        node.data.mkdir(parents=True, exist_ok=True)
        if node.name == NAMENODE and not (node.data / "name" / "current" / "VERSION").exists():
            self._format(node)

    def command(self, node: Node) -> tuple[str, ...]:
        """The daemon itself."""
        return (*self._java(node), _daemon(node))

    def answers(self, node: Node) -> bool:
        """The NameNode: out of safe mode. A DataNode: it accepts data and its heartbeats are answered."""
        if node.name == NAMENODE:
            return bean(node, NAMENODE_INFO).get("Safemode") == ""
        actors = json.loads(bean(node, DATANODE_INFO).get("BPServiceActorInfo", "[]"))
        return ports.answers(node.host, node.ports["data"]) and any(
            actor.get("NamenodeHaState") == "active" and int(actor["LastHeartbeat"]) <= HEARTBEATS_MISSED_MAX
            for actor in actors
        )

    def complete(self) -> bool:
        """Whether the NameNode has heard of every DataNode."""
        return self.live_datanodes() == DATANODES

    def endpoints(self) -> dict[str, Any]:
        """Addresses for native clients and for WebHDFS."""
        namenode = self.node(NAMENODE)
        return {
            "form": self.form,
            "namenode": f"hdfs://{namenode.host}:{namenode.ports['rpc']}",
            "namenode_http": f"{namenode.host}:{namenode.ports['http']}",
            "datanodes": {node.name: f"{node.host}:{node.ports['http']}" for node in self.nodes[1:]},
        }

    def live_datanodes(self) -> int:
        """How many DataNodes the NameNode takes for alive; a death shows after some 20 s."""
        return int(bean(self.node(NAMENODE), NAMENODE_STATE).get("NumLiveDataNodes", 0))

    def _java(self, node: Node) -> tuple[str, ...]:
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
        return jvm(HEAP_MEGABYTES, [node.folder / "conf", JARS.path(self.folder) / "*"], "-Xss512k", *opened)

    def _core(self, node: Node) -> dict[str, str]:
        namenode = self.node(NAMENODE)
        return {
            "fs.defaultFS": f"hdfs://{namenode.host}:{namenode.ports['rpc']}",
            "hadoop.tmp.dir": str(node.folder / "tmp"),
        }

    def _hdfs(self, node: Node) -> dict[str, str]:
        namenode = self.node(NAMENODE)
        found = {
            **SETTINGS,
            "dfs.namenode.rpc-address": f"{namenode.host}:{namenode.ports['rpc']}",
            "dfs.namenode.http-address": f"{namenode.host}:{namenode.ports['http']}",
            "dfs.namenode.name.dir": (node.data / "name").as_uri(),
        }
        if node.name == NAMENODE:
            return found
        return found | {
            "dfs.datanode.data.dir": (node.data / "blocks").as_uri(),
            "dfs.datanode.address": f"{node.host}:{node.ports['data']}",
            "dfs.datanode.ipc.address": f"{node.host}:{node.ports['ipc']}",
            "dfs.datanode.http.address": f"{node.host}:{node.ports['http']}",
            "dfs.datanode.hostname": node.host,
        }

    def _format(self, node: Node) -> None:
        words = (*self._java(node), _daemon(node), "-format", "-nonInteractive")
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=node.folder)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines()
            raise Trouble(f"cannot format {node.data}: {said[-1] if said else 'it said nothing'}")


def xml(settings: Mapping[str, str]) -> str:
    """A configuration file of Hadoop."""
    lines = [
        f"<property><name>{name}</name><value>{escape(value)}</value></property>\n" for name, value in settings.items()
    ]
    return "<configuration>\n" + "".join(lines) + "</configuration>\n"


def bean(node: Node, name: str) -> dict[str, Any]:
    """A management bean of a daemon; empty when it does not answer."""
    url = f"http://{node.host}:{node.ports['http']}/jmx?qry=Hadoop:service={name}"
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            beans = json.load(answer).get("beans") or [{}]
    except (OSError, ValueError):
        return {}
    return dict(beans[0])


def _daemon(node: Node) -> str:
    place = "namenode.NameNode" if node.name == NAMENODE else "datanode.DataNode"
    return f"org.apache.hadoop.hdfs.server.{place}"


def block_files(node: Node) -> list[Path]:
    """The blocks a DataNode holds, without their checksums."""
    return sorted(path for path in node.data.glob("blocks/**/blk_*") if path.suffix != ".meta")
