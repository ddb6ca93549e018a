"""Facts of a crawl (written once) and settings of a process (may change), both typed and frozen."""

from limpet.config.facts import LAYOUT_VERSION, Facts, ScopeFacts, decode_facts, differences
from limpet.config.settings import Settings, load_settings

__all__ = ["LAYOUT_VERSION", "Facts", "ScopeFacts", "Settings", "decode_facts", "differences", "load_settings"]
