"""What Limpet says about itself while it works: one line an event, no secret in any of them."""

from limpet.obs.logs import REDACTED, LineFormatter, configure_logging, log_event

__all__ = ["REDACTED", "LineFormatter", "configure_logging", "log_event"]
