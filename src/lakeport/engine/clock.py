"""The time."""

from __future__ import annotations

import time


def system_clock() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
