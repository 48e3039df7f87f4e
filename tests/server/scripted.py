"""Answers about tables that a test makes up: slow, failing or endless ones, which no real table gives on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from lakeport.server.answers.answer_lines import Answer, Chunk
from lakeport.server.answers.table_request import TableRequest
from lakeport.sharing.models import ChangesRequest, QueryRequest

Chunks = Callable[[TableRequest, QueryRequest], Iterator[bytes]]


class ScriptedTables:
    """All tables have version 7; what a query answers is what `chunks` gives, `plan` runs before it."""

    def __init__(self, chunks: Chunks, plan: Callable[[QueryRequest], Any] = lambda request: None) -> None:
        self.chunks, self.plan = chunks, plan

    def version(self, table_request: TableRequest, starting_timestamp: str | None = None) -> int:
        self.plan(QueryRequest())
        return 7

    def metadata(self, table_request: TableRequest, version: int | None = None, timestamp: str | None = None) -> Answer:
        raise NotImplementedError

    def query(self, table_request: TableRequest, request: QueryRequest) -> Answer:
        self.plan(request)
        return Answer(
            version=7,
            response_format="parquet",
            end_stream_action=table_request.capabilities.include_end_stream_action,
            chunks=(Chunk(lines) for lines in self.chunks(table_request, request)),
        )

    def changes(self, table_request: TableRequest, request: ChangesRequest) -> Answer:
        raise NotImplementedError
