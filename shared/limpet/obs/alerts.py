"""Alerts: what a person should know, as one line of the log each."""

import logging

from limpet.obs.logs import log_event

_LOG = logging.getLogger("limpet.alert")


def log_alert(kind: str, detail: str) -> None:
    """Say it."""
    log_event(_LOG, logging.ERROR, kind, detail=detail)
