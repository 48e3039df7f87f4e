"""The log lines that urllib3 writes about our requests, without the paths and queries in them: those of a signed URL
are as good as a password. What urllib3 writes about the requests of others stays as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import local
from typing import Any

_LOGGERS = ("connection", "connectionpool", "poolmanager", "response", "util.retry")
"""Those of urllib3's modules that write; a filter is not inherited."""


class _Thread(local):
    sends_for_us = False


_thread = _Thread()


@contextmanager
def untold_targets() -> Iterator[None]:
    """What this thread sends in the block is logged without its path and query."""
    _thread.sends_for_us = True
    try:
        yield
    finally:
        _thread.sends_for_us = False


def _shorten(record: logging.LogRecord) -> bool:
    if _thread.sends_for_us and isinstance(record.args, tuple):
        record.args = tuple(map(_shortened, record.args))
        record.exc_info = None  # an error in the head of an answer quotes it, and it may redirect to a signed URL
    return True


def _shortened(argument: Any) -> Any:
    if isinstance(argument, Exception):
        return type(argument).__name__
    return "…" if isinstance(argument, str) and (argument.startswith("/") or "://" in argument) else argument


for _name in _LOGGERS:
    logging.getLogger(f"urllib3.{_name}").addFilter(_shorten)
