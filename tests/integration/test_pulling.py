"""A crawl of more shards than a folder has is copied into a folder, in one walk, and is as sound there."""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Final, cast

from integration.crawl_maker import Sent, answer, make_crawl, make_facts, robots
from limpet.cli.pulling import SHARDS_MAX, copy_rows, facts_of_copy, keep_settings
from limpet.clock import SystemClock
from limpet.cluster.remote import RemoteCrawl
from limpet.config import Settings
from limpet.embedded.folder import Folder
from limpet.reconciler.audit import audit
from limpet.reconciler.crawl_folder import settings_stored_us
from limpet.reconciler.verify import verify
from limpet.runtime import InlineRunner
from limpet.testing.loop import EPOCH_US
from limpet.urlstore import RepairItem
from unit.cli.folder_crawl import FolderCrawl

SHARDS: Final = 34
HOSTS: Final = tuple(f"h{number}.test" for number in range(9))


def sent_to(host: str, at: float) -> list[Sent]:
    """A robots.txt and two pages of a host."""
    return [
        robots(at, host=host),
        Sent(url=f"http://{host}/", at=at + 2, links=2),
        Sent(url=f"http://{host}/gone", at=at + 4, wire=answer(410)),
    ]


def test_a_crawl_of_many_shards_fits_into_a_folder(tmp_path: Path) -> None:
    """`verify` and `audit` find in the copy what they find in the original, and nothing wrong."""
    sent = [one for number, host in enumerate(HOSTS) for one in sent_to(host, number * 10.0)]
    original = make_crawl(tmp_path / "original", sent, facts=make_facts(shards=SHARDS))
    copy = Folder.create(tmp_path / "copy", facts_of_copy(original.facts))
    assert (copy.facts.shards, original.facts.shards) == (SHARDS_MAX, SHARDS)

    async def pull() -> int:
        crawl = FolderCrawl(original)
        try:
            await crawl.store(7).put_repair(RepairItem(kind="k", subject="s", detail="d", created_us=3))
            return await copy_rows(cast("RemoteCrawl", crawl), copy, SystemClock(), InlineRunner())
        finally:
            await crawl.close()

    assert asyncio.run(pull()) == 2 * len(HOSTS)
    shutil.copytree(original.segment_directories[0], copy.segment_directories[0], dirs_exist_ok=True)
    before, after = verify(original), verify(copy)
    assert before.findings == after.findings == []
    for name in ("rows", "hosts", "outcomes", "records"):
        assert after.checked[name] == before.checked[name] > 0, name
    shutil.copy2(original.path / "settings.json", copy.path / "settings.json")
    assert audit(copy).findings == audit(original).findings == []


def test_settings_of_a_copy_are_as_old_as_their_configuration(tmp_path: Path) -> None:
    """An audit judges what was sent since then by them; nothing is older than its crawl."""
    copy = Folder.create(tmp_path / "copy", make_facts(created_us=EPOCH_US))
    config = tmp_path / "limpet.toml"
    config.touch()
    for written_us, kept_us in ((EPOCH_US + 7_000_000, EPOCH_US + 7_000_000), (EPOCH_US - 7_000_000, EPOCH_US)):
        os.utime(config, ns=(written_us * 1000, written_us * 1000))
        keep_settings(copy, Settings(), config)
        assert settings_stored_us(copy.path) == kept_us
