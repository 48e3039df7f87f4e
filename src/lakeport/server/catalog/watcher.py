"""The current catalog: polled every second, reloaded when it has changed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from threading import Event, Thread

from lakeport.errors import CatalogError
from lakeport.server.catalog.index import Catalog
from lakeport.server.catalog.model import CatalogContent, CatalogSource
from lakeport.server.http.refusals import unavailable

_log = logging.getLogger(__name__)
_SILENT_SECONDS = 10.0
"""Report a source that has not responded for this long."""


class CatalogWatcher:
    """Holds the current `catalog`, and `problem`: why the last poll of the source failed, if it did.

    The constructor loads the catalog and raises the source's errors. Revocations arrive only through the source: if it
    has not responded for `max_age_seconds` (0: no limit), `current` refuses to return the catalog."""

    def __init__(
        self,
        source: CatalogSource,
        *,
        interval_seconds: float = 1.0,
        max_age_seconds: float = 0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source, self._interval, self._max_age, self._now = source, interval_seconds, max_age_seconds, now
        self._confirmed = now()
        # Read before loading: the next poll finds a change in between.
        self._generation = source.generation()
        self.catalog = Catalog(source.load())
        self.problem: Exception | None = None
        self._refused: CatalogError | None = None
        """Why the newest content is not in force, if it was rejected."""
        self._reported = 0
        """The last silence threshold that was logged."""
        self._end, self._asked_for = Event(), False

    @property
    def age(self) -> float:
        """Seconds since the last poll that the source answered."""
        return self._now() - self._confirmed

    @property
    def answers(self) -> bool:
        """Whether the source responded recently. Invalid content is a response."""
        failed = self.problem is not None and not isinstance(self.problem, CatalogError)
        return not failed and self.age <= _SILENT_SECONDS

    def current(self) -> Catalog:
        """Raises `Refusal` (503) if the catalog may be out of date."""
        if self._max_age and self.age > self._max_age:
            message = "the server cannot reach its catalog, so it cannot check permissions: try again later"
            raise unavailable(message, (b"retry-after", b"5"))
        return self.catalog

    async def run(self) -> None:
        """Poll the source until cancelled; never blocks the loop or the exit of the process."""
        Thread(target=self._follow, name="lakeport-catalog", daemon=True).start()
        try:
            while True:
                await asyncio.sleep(self._interval)
                self.report_age()
        finally:
            self._end.set()

    def reload(self) -> None:
        """Make the next poll reload the catalog, changed or not; for signal handlers.

        Not immediately: only polls some time apart show whether a file is being written."""
        self._asked_for = True

    def _follow(self) -> None:
        while not self._end.wait(self._interval):
            self.look()

    def look(self) -> None:
        """Apply a change of the source. If the content is invalid or the source does not respond, log it once and keep
        the catalog."""
        asked = self._now()
        try:
            generation = self._source.generation()
            if generation is not None and (self._asked_for or generation != self._generation):
                self._load(generation)
            else:
                self._set_problem(self._refused)
            self._confirmed = asked
        except CatalogError as error:
            self._confirmed = asked
            self._set_problem(error)
        except Exception as error:  # whatever it is, keep serving the last good catalog
            self._set_problem(error)

    def report_age(self) -> None:
        """Log when the source falls silent, when the catalog becomes too old, and when the source responds again."""
        age = self.age
        too_old = 0 < self._max_age < age
        stage = (age > _SILENT_SECONDS) + too_old
        if stage > self._reported:
            what = "requests are rejected until it does" if too_old else "serving its last state"
            _log.error("the catalog has not responded for %.0f s: %s", age, what)
        elif stage < self._reported:
            _log.info("the catalog responds again")
        self._reported = stage

    def _load(self, generation: object) -> None:
        asked_for, self._asked_for = self._asked_for, False
        try:
            self.catalog = Catalog(self._checked(self._source.load()))
        except CatalogError as error:
            self._generation, self._refused = generation, error  # reloading would not help
            raise
        self._generation, self._refused = generation, None
        _log.info("reloaded the catalog on request" if asked_for else "the catalog changed and was reloaded")
        self._set_problem(None)

    def _checked(self, content: CatalogContent) -> CatalogContent:
        if content.anonymous and not self.catalog.content.anonymous:
            raise CatalogError(
                "the changed catalog allows access without a token (anonymous: true); restart the server if intended"
            )
        return content

    def _set_problem(self, problem: Exception | None) -> None:
        if self._end.is_set():  # the source may be closed already
            return
        if problem is not None and str(problem) != str(self.problem):
            _log.error("the catalog cannot be loaded; still serving the last good one: %s", problem)
        elif problem is None and self.problem is not None:
            _log.info("the catalog can be loaded again")
        self.problem = problem
