"""The crawl of the rude web, which two files judge."""

import pytest

from e2e.rudecrawl import RudeCrawl


@pytest.fixture(scope="session")
def rude(tmp_path_factory: pytest.TempPathFactory) -> RudeCrawl:
    """One crawl for all."""
    return RudeCrawl(tmp_path_factory.mktemp("rude"))
