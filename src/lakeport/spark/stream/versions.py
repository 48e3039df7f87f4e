"""The latest version of a table that a stream follows, asked for no more often than its server should be."""

from __future__ import annotations

import time
from collections.abc import Callable


class LatestVersion:
    """The latest version; once it is frozen, later ones do not count."""

    def __init__(
        self, ask: Callable[[], int], seconds: float, known: int, now: Callable[[], float] = time.monotonic
    ) -> None:
        """`known` has just been asked for."""
        self._ask, self._seconds, self._now = ask, seconds, now
        self.known = known
        self._asked_at = now()
        self._is_frozen = False

    def current(self) -> int:
        """As it is known; asked for again if that was long enough ago."""
        if not self._is_frozen and self._now() - self._asked_at >= self._seconds:
            self.known, self._asked_at = self._ask(), self._now()
        return self.known

    def freeze(self) -> None:
        self.current()
        self._is_frozen = True
