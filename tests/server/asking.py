"""Asks a `TableService` about tables on the disk, without HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lakeport.engine import default_engine
from lakeport.kernel.schema import StructType
from lakeport.server.access.tokens import TokenSigner
from lakeport.server.answers.answer_lines import Answer
from lakeport.server.answers.opened_tables import TableCache
from lakeport.server.answers.service import TableService
from lakeport.server.answers.table_request import TableRequest
from lakeport.server.answers.versions import QueryRules, Versions
from lakeport.server.catalog.model import Recipient, Table
from lakeport.server.signing.signers import Signers
from lakeport.sharing.capabilities import parse_capabilities
from lakeport.sharing.models import ChangesRequest, QueryRequest
from lakeport.testing.builder import TableBuilder, protocol, struct

DELTA = "responseformat=delta;readerfeatures=deletionvectors,columnmapping,timestampntz,v2checkpoint"
PARQUET = "responseformat=parquet"
FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = protocol(features=["deletionVectors"], writer_only=["changeDataFeed"])
ENGINE = default_engine()

Line = dict[str, Any]


class Clock:
    """Seconds since the epoch, as a test wants them."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def service(clock: Clock | None = None, *, stale_is_fine: bool = False, **rules: Any) -> TableService:
    clock = clock or Clock()
    key = b"a key that tests share"
    return TableService(
        Versions(TableCache({}, 10, stale_is_fine), TokenSigner(key, clock), QueryRules(**rules)),
        Signers(key, endpoint="/sharing", seconds=3600, now=clock),
        clock,
    )


def table_request(
    location: str | Path, capabilities: str | None = DELTA, *, name: str = "orders", who: str = "ann", **settings: Any
) -> TableRequest:
    """A recipient that asks for a table whose history is shared."""
    settings = {"history_shared": True} | settings
    return TableRequest(
        table=Table(id=f"id-of-{name}", share="sales", schema="eu", name=name, location=str(location), **settings),
        recipient=Recipient(id=who, name=who),
        capabilities=parse_capabilities(capabilities),
        public_url="http://127.0.0.1:1",
    )


def query(to: TableService, by: TableRequest, **request: Any) -> Answer:
    return to.query(by, QueryRequest(**request))


def changes(to: TableService, by: TableRequest, start: int, **request: Any) -> Answer:
    return to.changes(by, ChangesRequest(starting_version=start, **request))


def lines(answer: Answer) -> list[Line]:
    return [json.loads(line) for line in b"".join(chunk.lines for chunk in answer.chunks).splitlines()]


def told(some: Iterable[Line]) -> list[tuple[Any, ...]]:
    """What lines after the head say of files and of the table itself."""
    return [_told(line) for line in some if not {"protocol", "endStreamAction"} & set(line)]


def _told(line: Line) -> tuple[Any, ...]:
    (kind, body), *_ = line.items()
    if kind == "metaData":
        return "metadata", body.get("version")
    if "deltaSingleAction" in body:
        (kind, action), *_ = body["deltaSingleAction"].items()
        vector = action.get("deletionVector", {})
        return kind, body["id"], body.get("version"), vector.get("offset"), vector.get("cardinality")
    return kind, body["id"], body.get("version")


def pages(
    to: TableService, by: TableRequest, size: int, feed_from: int | None = None, **request: Any
) -> Iterator[list[Line]]:
    """The lines of all pages of a query, or of a change data feed."""
    token: str | None = None
    while True:
        more = request | {"max_files": size, "page_token": token}
        answer = query(to, by, **more) if feed_from is None else changes(to, by, feed_from, **more)
        found = lines(answer)
        yield found
        token = found[-1]["endStreamAction"].get("nextPageToken")
        if token is None:
            return


def ids(some: Iterable[Line]) -> list[str]:
    return [entry[1] for entry in told(some) if entry[0] != "metadata"]


def built(path: Path, schema: StructType | None = None, **settings: Any) -> TableBuilder:
    """A table of an `id`, unless another schema is given."""
    return TableBuilder(ENGINE, str(path), schema or struct(id="long"), **settings)


def pretended(path: str, partition: Mapping[str, str | None] | None = None, **more: Any) -> Line:
    """An add of a file that nobody has written."""
    body = {"path": path, "partitionValues": dict(partition or {}), "size": 7, "modificationTime": 1}
    return {"add": body | {"dataChange": True} | more}
