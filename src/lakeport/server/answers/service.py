"""Requests on a table: its version, metadata, files and changes.

Every answer takes three steps: `versions` finds the version or range, `snapshot` and `range` plan its files, `answer`
signs and writes them. All of it blocks on storage, runs in worker threads, and raises `LakeportError`s.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from lakeport.server.answers.answer_lines import Answer, End, FileSigner, write_answer
from lakeport.server.answers.plan import Plan
from lakeport.server.answers.range import RangeFiles
from lakeport.server.answers.snapshot import SnapshotFiles, plan_metadata, read_hints
from lakeport.server.answers.table_request import TableRequest
from lakeport.server.answers.versions import Versions
from lakeport.server.signing.signers import Signers
from lakeport.sharing.models import ChangesRequest, QueryRequest


@dataclass(frozen=True)
class TableService:
    """Answers requests on tables. Thread-safe."""

    versions: Versions
    signers: Signers
    now: Callable[[], float] = time.time

    def version(self, table_request: TableRequest, starting_timestamp: str | None = None) -> int:
        """The latest version; with a timestamp, the first version at or after it."""
        return self.versions.number(table_request, starting_timestamp)

    def metadata(self, table_request: TableRequest, version: int | None = None, timestamp: str | None = None) -> Answer:
        """Two lines, the protocol and the metadata. Clients accept no others, so no `EndStreamAction` is promised."""
        return self._answer(
            table_request, plan_metadata(self.versions.snapshot(table_request, version, timestamp)), None
        )

    def query(self, table_request: TableRequest, request: QueryRequest) -> Answer:
        """The files of a snapshot, or with `startingVersion` those that later commits added and removed."""
        table_request.check_history(request.version, request.timestamp, request.starting_version)
        size = self.versions.page_size(request)
        if request.starting_version is not None:
            commits, range_page = self.versions.of_stream(table_request, request)
            protocol = bool(request.include_historical_protocol)
            stream = RangeFiles(commits=commits, feed=False, metadata=True, protocol=protocol)
            return self._answer(table_request, stream.plan(range_page, size), self._end(table_request, size))
        shared, page = self.versions.of_query(table_request, request)
        rules = self.versions.rules
        predicate = read_hints(request, shared.delta, use_sql=rules.use_sql_hints, use_json=rules.use_json_hints)
        plan = SnapshotFiles(shared, request, predicate).plan(page, size)
        refresh = self.versions.refresh_token(table_request, shared.version) if request.include_refresh_token else None
        return self._answer(table_request, plan, self._end(table_request, size, refresh))

    def changes(self, table_request: TableRequest, request: ChangesRequest) -> Answer:
        """The change data feed of a range of versions."""
        commits, page = self.versions.of_changes(table_request, request)
        metadata, protocol = request.include_historical_metadata, request.include_historical_protocol
        feed = RangeFiles(commits=commits, feed=True, metadata=metadata, protocol=protocol)
        size = self.versions.page_size(request)
        return self._answer(table_request, feed.plan(page, size), self._end(table_request, size))

    def _end(self, table_request: TableRequest, page_size: int | None, refresh_token: str | None = None) -> End | None:
        """The end of an answer, if the client asks for one or a token needs it."""
        is_wanted = (
            table_request.capabilities.include_end_stream_action or page_size is not None or refresh_token is not None
        )
        return End(self.versions.page_token, refresh_token) if is_wanted else None

    def _answer(self, table_request: TableRequest, plan: Plan, end: End | None) -> Answer:
        """Whatever restricts or replaces the planned files belongs here: a function from plan to plan."""
        signer = self.signers.for_table(table_request.table, table_request.public_url, table_request.recipient.id)
        return write_answer(plan, table_request, FileSigner(signer, self.now), end)
