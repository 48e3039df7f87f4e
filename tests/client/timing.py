"""Time that passes only when somebody sleeps."""

from __future__ import annotations

from typing import Any

from lakeport.client.http.connections import ConnectionOptions
from lakeport.client.http.pool import HttpOptions, HttpPool
from lakeport.client.http.retrying import RetryOptions, Timing


class Sleeps:
    """Notes the sleeps; the clock shows their sum. `chance` is always 1: the longest waits."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def timing(self) -> Timing:
        return Timing(clock=lambda: sum(self.seconds), sleep=self.seconds.append, chance=lambda: 1.0)


def pool(sleeps: Sleeps | None = None, *, retries: RetryOptions | None = None, **connections: Any) -> HttpPool:
    """A pool that sleeps in no time."""
    options = HttpOptions(
        connections=ConnectionOptions(**connections),
        retries=retries or RetryOptions(),
    )
    return HttpPool(options, timing=(sleeps or Sleeps()).timing())
