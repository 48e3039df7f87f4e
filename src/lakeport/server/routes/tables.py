"""Table routes: version, metadata, files, changes, and credentials for the directory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import msgspec
from litestar import get, post, route
from litestar.enums import HttpMethod
from litestar.status_codes import HTTP_200_OK

from lakeport.server.answers.answer_lines import Answer
from lakeport.server.answers.async_queries import AsyncQuery, Job, StartedAnswer
from lakeport.server.answers.streaming import LinesReply, begin
from lakeport.server.answers.table_request import TableRequest
from lakeport.server.http.asgi import NDJSON, Header, Reply, Replying, Scope, header, json_reply, record_of
from lakeport.server.http.lanes import BlockingPool, Lane
from lakeport.server.routes.parsing import (
    CAPABILITIES,
    FILE_ID_HASH,
    HttpRequest,
    open_table_request,
    parse_version,
    query_parameters,
    read_body,
    scope_of,
    too_slow,
)
from lakeport.server.services import Services, services_of
from lakeport.sharing.capabilities import parse_capabilities
from lakeport.sharing.lines import PENDING, QueryStatus
from lakeport.sharing.models import CredentialsAnswer
from lakeport.sharing.requests import (
    decode_credentials_request,
    decode_query,
    decode_query_status,
    parse_changes_request,
)

_TABLE = "/shares/{share:str}/schemas/{schema:str}/tables/{table:str}"
_VERSION = b"delta-table-version"

T = TypeVar("T")


@get(f"{_TABLE}/version")
async def get_version(request: HttpRequest) -> Reply:
    return await _version(request)


@route(_TABLE, http_method=[HttpMethod.HEAD])
async def head_version(request: HttpRequest) -> Reply:
    """Deprecated alternative to GET …/version."""
    return await _version(request)


@get(f"{_TABLE}/metadata")
async def get_metadata(request: HttpRequest) -> Replying:
    scope, services, table_request = _open(request, "getTableMetadata")
    parameters = query_parameters(scope)
    version, timestamp = parse_version(parameters.get("version")), parameters.get("timestamp")
    answer = partial(services.tables.metadata, table_request, version, timestamp)
    return await _answered(scope, table_request, _job(services.lookups, table_request, answer))


@post(f"{_TABLE}/query", status_code=HTTP_200_OK)
async def query_table(request: HttpRequest) -> Replying:
    scope, services, table_request = _open(request, "queryTable")
    query = decode_query(await read_body(request))
    job = _job(services.answers, table_request, partial(services.tables.query, table_request, query))
    query_id = None
    if table_request.capabilities.async_query:
        content = AsyncQuery(
            recipient=table_request.recipient.id,
            table=table_request.table.id,
            capabilities=header(scope, CAPABILITIES),
            file_id_hash=table_request.file_id_hash,
            request=query,
        )
        query_id = services.queries.new_id(content)
    if query_id is None:
        return await _answered(scope, table_request, job)
    started = await services.queries.started(query_id, query, job)
    return _started_or_pending(scope, table_request, query_id, started, job)


@post(f"{_TABLE}/queries/{{query_id:str}}", status_code=HTTP_200_OK)
async def get_query(request: HttpRequest) -> Replying:
    """The answer to a pending query."""
    record = record_of(scope_of(request))
    record.path = f"{record.path.rpartition('/')[0]}/…"  # tokens are not logged
    scope, services, table_request = _open(request, "getQuery")
    status = decode_query_status(await read_body(request))
    query_id: str = scope["path_params"]["query_id"]
    query = services.queries.read_id(query_id, table_request.recipient.id, table_request.table.id)
    table_request = replace(
        table_request, capabilities=parse_capabilities(query.capabilities), file_id_hash=query.file_id_hash
    )
    wanted = msgspec.structs.replace(
        query.request,
        max_files=status.max_files or query.request.max_files,
        page_token=status.page_token or query.request.page_token,
    )
    job = _job(services.answers, table_request, partial(services.tables.query, table_request, wanted))
    started = await services.queries.started(query_id, wanted, job, polled=True)
    return _started_or_pending(scope, table_request, query_id, started, job)


@get(f"{_TABLE}/changes")
async def get_changes(request: HttpRequest) -> Replying:
    scope, services, table_request = _open(request, "getTableChanges")
    changes = parse_changes_request(query_parameters(scope))
    return await _answered(
        scope,
        table_request,
        _job(services.answers, table_request, partial(services.tables.changes, table_request, changes)),
    )


@post(f"{_TABLE}/temporary-table-credentials", status_code=HTTP_200_OK)
async def generate_credentials(request: HttpRequest) -> Reply:
    scope, services, table_request = _open(request, "generateTemporaryTableCredential")
    wanted = decode_credentials_request(await read_body(request))
    record_of(scope).details = {"location": wanted.location or table_request.table.location}
    lane = services.lookups.lane(table_request.table.id, table_request.recipient.id)
    call = lane.run(services.vendor.credentials, table_request.table, wanted.location)
    return json_reply(CredentialsAnswer(credentials=await _in_time(services, call)))


TABLE_ROUTES = (get_version, head_version, get_metadata, query_table, get_query, get_changes, generate_credentials)


def _open(request: HttpRequest, operation: str) -> tuple[Scope, Services, TableRequest]:
    scope = scope_of(request)
    return scope, services_of(scope), open_table_request(scope, operation)


async def _version(request: HttpRequest) -> Reply:
    scope, services, table_request = _open(request, "getTableVersion")
    since = query_parameters(scope).get("startingTimestamp")
    lane = services.lookups.lane(table_request.table.id, table_request.recipient.id)
    version = await _in_time(services, lane.run(services.tables.version, table_request, since))
    record_of(scope).details = {"version": version}
    return Reply(200, [(_VERSION, str(version).encode())])


def _job(pool: BlockingPool, table_request: TableRequest, answer: Callable[[], Answer]) -> Job:
    return Job(answer, pool.lane(table_request.table.id, table_request.recipient.id), table_request.recipient.id)


async def _answered(scope: Scope, table_request: TableRequest, job: Job) -> Replying:
    """Plan an answer and send it. Raises `SharingError` (503) if it does not begin in time."""
    services = services_of(scope)
    return _reply(scope, table_request, await _in_time(services, job.lane.run(begin, job.answer)), job.lane)


async def _in_time(services: Services, call: Coroutine[Any, Any, T]) -> T:
    seconds = services.config.request_timeout_seconds
    try:
        async with asyncio.timeout(seconds or None) as timeout:
            return await call
    except TimeoutError:
        if timeout.expired():
            raise too_slow(seconds) from None
        raise


def _started_or_pending(
    scope: Scope, table_request: TableRequest, query_id: str, started: StartedAnswer | None, job: Job
) -> Replying:
    if started is not None:
        return _reply(scope, table_request, started, job.lane)
    record_of(scope).details = {"pending": True}
    line = msgspec.json.encode({"queryStatus": QueryStatus(query_id=query_id, status=PENDING)}) + b"\n"
    # Spark's client needs a version in every answer, and uses the last one's.
    headers = _headers(table_request, 0, "asyncquery=true")
    return Reply(200, [(b"content-type", NDJSON), *headers], line)


def _reply(scope: Scope, table_request: TableRequest, started: StartedAnswer, lane: Lane) -> Replying:
    lines, first = started
    services, record = services_of(scope), record_of(scope)
    record.details = {"responseFormat": lines.answer.response_format, **lines.answer.details}
    return LinesReply(
        lines,
        first,
        _headers(table_request, lines.answer.version, lines.answer.capabilities),
        lane=lane,
        stall_seconds=services.config.limits.stall_seconds,
        refuse=services.refusal,
    )


def _headers(table_request: TableRequest, version: int, capabilities: str) -> list[Header]:
    headers = [(_VERSION, str(version).encode()), (CAPABILITIES, capabilities.encode())]
    if table_request.file_id_hash is not None:
        headers.append((FILE_ID_HASH, table_request.file_id_hash.encode()))
    return headers
