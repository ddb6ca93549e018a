"""A page of Debian's Python documentation in a browser: from its server, and from the archive once that is gone.

Chromium takes a picture of each; the pictures must be the same but for a small share of their pixels. So that this says
something, the same page without its style sheets and images must look different.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from PIL import Image, ImageChops

from e2e.command import limpet
from e2e.nginx import Nginx, tool
from integration.judges import Replay

pytestmark = pytest.mark.slow

ROOT = Path("/usr/share/doc/python3-doc/html")
PAGE = "/howto/logging.html"
DIFFERENT_SHARE_MAX = 0.002
"""Of the pixels, without scripts. Fonts and rendering are those of one machine."""

SCRIPTED_SHARE_MAX = 0.02
"""With scripts. pywb gives each script a scope of its own, so that one does not see the constants of another
("_ready is not defined"): the button beside the page's menu keeps the colour of its style sheet."""

NAKED_SHARE_MIN = 0.05
NOTICEABLE = 16  # of 255, in any colour
SIZE = (1200, 6000)
SECONDS_MAX = 120


@dataclass(frozen=True)
class Pictures:
    """The page as it was served, as it is replayed, and as it is replayed from a crawl without requisites."""

    live: Image.Image
    replayed: Image.Image
    naked: Image.Image
    scripted: tuple[Image.Image, Image.Image]  # live and replayed, with scripts
    archived: list[str]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Pictures:
    """Crawl, picture, server gone, replay, picture."""
    if not (ROOT / PAGE.lstrip("/")).is_file():
        pytest.skip("python3-doc is not installed: apt-get install python3-doc")
    path = tmp_path_factory.mktemp("browser")
    browser = Chromium(path)
    with Nginx(path / "nginx", ROOT) as nginx:
        url = nginx.url(PAGE)
        live, scripted = browser.picture(url, "live"), browser.picture(url, "live-scripts", scripts=True)
        # The page's style sheet imports one that imports one that imports one: they are in the scope of the host.
        for name, words in (("whole", ()), ("naked", ("--no-requisites", "--scope", "page"))):
            ended = limpet("crawl", url, "--into", path / name, "--owned", "127.0.0.1", "-q", *words)
            assert ended.code == 0, ended
    (whole, whole_scripted), (naked, _) = (browser.replayed(path, name, url) for name in ("whole", "naked"))
    archived = limpet("urls", path / "whole", "--state", "fetched").stdout.split()
    return Pictures(live, whole, naked, (scripted, whole_scripted), archived)


class Chromium:
    """Takes pictures of pages, without a window."""

    def __init__(self, path: Path) -> None:
        self._program = tool("chromium")
        self._path = path

    def picture(self, address: str, name: str, *, scripts: bool = False) -> Image.Image:
        """What a page looks like once it is loaded, the top `SIZE` of it."""
        file = self._path / f"{name}.png"
        command = [
            self._program,
            "--headless=new",
            "--no-sandbox",  # the superuser of a container has no other way
            "--disable-gpu",
            "--hide-scrollbars",
            "--no-first-run",
            "--disable-background-networking",
            f"--user-data-dir={self._profile(scripts=scripts)}",
            f"--window-size={SIZE[0]},{SIZE[1]}",
            "--virtual-time-budget=20000",
            f"--screenshot={file}",
            address,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        assert file.is_file(), f"{' '.join(command)}\n{done.stderr}"
        with Image.open(file) as image:
            return image.convert("RGB")

    def _profile(self, *, scripts: bool) -> Path:
        """A profile that lets pages run scripts, or not."""
        preferences = self._path / f"profile-{scripts}" / "Default" / "Preferences"
        if not preferences.exists():
            preferences.parent.mkdir(parents=True)
            allowed = {"javascript": 1 if scripts else 2}  # CONTENT_SETTING_ALLOW, _BLOCK
            preferences.write_text(json.dumps({"profile": {"default_content_setting_values": allowed}}))
        return preferences.parents[1]

    def replayed(self, path: Path, name: str, url: str) -> tuple[Image.Image, Image.Image]:
        """A page out of the archive of one crawl, without and with scripts."""
        segments = sorted((path / name / "segments").glob("*.warc.gz"))
        (path / f"pywb-{name}").mkdir()
        with Replay(path / f"pywb-{name}", segments, banner=False) as replay:
            address = replay.address(url, mode="mp_")
            return self.picture(address, name), self.picture(address, f"{name}-scripts", scripts=True)


def different_share(one: Image.Image, other: Image.Image) -> float:
    """The share of pixels that differ noticeably."""
    assert one.size == other.size
    red, green, blue = ImageChops.difference(one, other).split()
    most = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    return sum(most.histogram()[NOTICEABLE:]) / (one.width * one.height)


def test_the_replayed_page_looks_like_the_live_one(pictures: Pictures, capsys: pytest.CaptureFixture[str]) -> None:
    """Style sheets and images out of the archive; nothing of the server is left. With scripts, as far as pywb can."""
    plain, scripted = different_share(pictures.live, pictures.replayed), different_share(*pictures.scripted)
    with capsys.disabled():
        sys.stdout.write(f"\n{PAGE}: {plain:.4%} of the pixels differ without scripts, {scripted:.4%} with them\n")
    assert plain <= DIFFERENT_SHARE_MAX
    assert scripted <= SCRIPTED_SHARE_MAX


def test_a_page_without_its_requisites_looks_different(pictures: Pictures) -> None:
    """Otherwise the comparison would prove nothing."""
    assert different_share(pictures.live, pictures.naked) >= NAKED_SHARE_MIN


def test_requisites_of_every_kind_are_in_the_archive(pictures: Pictures) -> None:
    """Style sheets, what they import, scripts, images."""
    endings = {url.partition("?")[0].rpartition(".")[2] for url in pictures.archived}
    assert endings >= {"html", "css", "js", "png"}
