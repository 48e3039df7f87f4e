"""Strip paths and queries from urllib3's log lines about our requests: those of a signed URL are as good as a password.
Lines about other requests are unchanged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import local
from typing import Any

_LOGGERS = ("connection", "connectionpool", "poolmanager", "response", "util.retry")
"""The urllib3 modules that log; filters are not inherited."""


class _Thread(local):
    sends_for_us = False


_thread = _Thread()


@contextmanager
def untold_targets() -> Iterator[None]:
    """Log requests of this thread without path and query while in the block."""
    _thread.sends_for_us = True
    try:
        yield
    finally:
        _thread.sends_for_us = False


def _shorten(record: logging.LogRecord) -> bool:
    if _thread.sends_for_us and isinstance(record.args, tuple):
        record.args = tuple(map(_shortened, record.args))
        record.exc_info = None  # an error about a response's head quotes it, and it may redirect to a signed URL
    return True


def _shortened(argument: Any) -> Any:
    if isinstance(argument, Exception):
        return type(argument).__name__
    return "…" if isinstance(argument, str) and (argument.startswith("/") or "://" in argument) else argument


for _name in _LOGGERS:
    logging.getLogger(f"urllib3.{_name}").addFilter(_shorten)
