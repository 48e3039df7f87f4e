"""The catalog as it is now: looked at every second, loaded again when it has changed."""

from __future__ import annotations

import asyncio
import logging

from lakeport.errors import CatalogError
from lakeport.server.catalog.index import Catalog
from lakeport.server.catalog.model import CatalogSource

_LOG = logging.getLogger(__name__)


class CatalogWatcher:
    """Holds the current `catalog`, and `problem`: why the source could not be followed at the last look, if so.

    Making one loads the catalog, and raises what the source raises."""

    def __init__(self, source: CatalogSource, interval_seconds: float = 1.0) -> None:
        self._source, self._interval = source, interval_seconds
        # Asked before loading: a change in between is found by the next look.
        self._generation = source.generation()
        self.catalog = Catalog(source.load())
        self.problem: Exception | None = None

    async def run(self) -> None:
        """Follows the source until it is cancelled; never blocks the loop."""
        while True:
            await asyncio.sleep(self._interval)
            await asyncio.to_thread(self.look)

    def look(self) -> None:
        """Takes over a change of the source. A content that makes no sense, or a source that does not answer, is
        logged once, and the catalog stays as it is."""
        try:
            generation = self._source.generation()
            if generation != self._generation:
                self._load(generation)
            elif not isinstance(self.problem, CatalogError):
                self._set_problem(None)
        except Exception as error:  # whatever it is, recipients are served what was good a moment ago
            self._set_problem(error)

    def _load(self, generation: object) -> None:
        try:
            self.catalog = Catalog(self._source.load())
        except CatalogError:
            self._generation = generation  # loading it again would not help
            raise
        self._generation = generation
        _LOG.info("the catalog has changed and was loaded")
        self._set_problem(None)

    def _set_problem(self, problem: Exception | None) -> None:
        if problem is not None and str(problem) != str(self.problem):
            _LOG.error("the catalog cannot be loaded; the last good one stays: %s", problem)
        elif problem is None and self.problem is not None:
            _LOG.info("the catalog can be loaded again")
        self.problem = problem
