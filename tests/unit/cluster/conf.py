"""A configuration that is right, to be spoilt key by key."""

from pathlib import Path

from limpet.cluster.settings import ClusterSettings, load_cluster_settings

SEEN = ", ".join(f'"127.0.0.1:{6400 + number}"' for number in range(4))
RIGHT = f"""
owned = ["127.0.0.0/8"]

[crawl]
contact = "crawl@example.org"
shards = 4

[cassandra]
contact_points = ["127.0.0.1"]

[kafka]
bootstrap = "127.0.0.1:9092"
prefix = "c1"

[hdfs]
url = "hdfs://127.0.0.1:9820"
namenodes_http = ["127.0.0.1:9870"]
root = "/limpet/c1"

[seen]
addresses = [{SEEN}]
"""


def written(folder: Path, text: str = RIGHT) -> Path:
    """The file."""
    path = folder / "limpet.toml"
    path.write_text(text)
    return path


def settings(folder: Path, text: str = RIGHT) -> ClusterSettings:
    """The settings of a text."""
    return load_cluster_settings(written(folder, text))
