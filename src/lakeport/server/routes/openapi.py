"""The OpenAPI document, built from the operations below and the wire models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from lakeport.server.config import ServerConfig
from lakeport.sharing import lines, models
from lakeport.version import __version__

Json: TypeAlias = dict[str, Any]

_REFERENCE = "#/components/schemas/{name}"
_DESCRIPTION = (
    "The Delta Sharing protocol: shares hold schemas, schemas hold tables, and a table is read by signed URLs of its "
    "files. Names are case-insensitive. Error responses have a JSON body with errorCode and message."
)
_ERRORS = {
    400: "A parameter, a header or the body is invalid, or the table cannot be read this way.",
    401: "The bearer token is missing or invalid.",
    403: "Requests from this address are not allowed.",
    404: "The share, schema, table or version does not exist, or is not shared with you.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    429: "Too many requests; Retry-After is the number of seconds to wait.",
    500: "The server failed; the message contains the request id.",
    503: "The response was not ready in time.",
}
_BODY_ERRORS = (408, 413)
_LINE_MODELS = (
    lines.Protocol,
    lines.Metadata,
    lines.File,
    lines.DeltaProtocol,
    lines.DeltaMetadata,
    lines.DeltaFile,
    lines.EndStreamAction,
    lines.QueryStatus,
)
_LINES = (
    "One JSON object per line. In the parquet format: protocol, metaData, then file, add, remove or cdf. In the delta "
    "format: protocol, metaData and file, whose contents are actions of the Delta log. Last, if asked for or needed: "
    "endStreamAction."
)
_LEAST = {"maxFiles": 1}
_MOST = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One method of one path. `answer` is a JSON model, or None for no body; `is_lines` means NDJSON."""

    id: str
    method: str = "get"
    path: str
    summary: str
    parameters: Sequence[str] = ()
    body: type[msgspec.Struct] | None = None
    answer: type[msgspec.Struct] | None = None
    is_lines: bool = False
    has_version: bool = False


_TABLE = "/shares/{share}/schemas/{schema}/tables/{table}"
_PAGED = ("maxResults", "pageToken")
_HEADERS = ("delta-sharing-capabilities", "fileidhash")

OPERATIONS = (
    Operation(id="listShares", path="/shares", summary="List shares", parameters=_PAGED, answer=models.SharePage),
    Operation(id="getShare", path="/shares/{share}", summary="Get a share", answer=models.ShareAnswer),
    Operation(
        id="listSchemas",
        path="/shares/{share}/schemas",
        summary="List the schemas of a share",
        parameters=_PAGED,
        answer=models.SchemaPage,
    ),
    Operation(
        id="listTables",
        path="/shares/{share}/schemas/{schema}/tables",
        summary="List the tables of a schema",
        parameters=_PAGED,
        answer=models.TablePage,
    ),
    Operation(
        id="listAllTables",
        path="/shares/{share}/all-tables",
        summary="List all tables of a share",
        parameters=_PAGED,
        answer=models.TablePage,
    ),
    Operation(
        id="getTableVersion",
        path=f"{_TABLE}/version",
        summary="Get the version of a table",
        parameters=("startingTimestamp",),
        has_version=True,
    ),
    Operation(
        id="headTableVersion",
        method="head",
        path=_TABLE,
        summary="Get the version of a table (deprecated)",
        parameters=("startingTimestamp",),
        has_version=True,
    ),
    Operation(
        id="getTableMetadata",
        path=f"{_TABLE}/metadata",
        summary="Get the metadata of a table",
        parameters=("version", "timestamp", *_HEADERS),
        is_lines=True,
        has_version=True,
    ),
    Operation(
        id="queryTable",
        method="post",
        path=f"{_TABLE}/query",
        summary="Read a table",
        parameters=_HEADERS,
        body=models.QueryRequest,
        is_lines=True,
        has_version=True,
    ),
    Operation(
        id="getQuery",
        method="post",
        path=f"{_TABLE}/queries/{{queryId}}",
        summary="Get the result of a pending query",
        body=models.QueryStatusRequest,
        is_lines=True,
        has_version=True,
    ),
    Operation(
        id="getTableChanges",
        path=f"{_TABLE}/changes",
        summary="Read the change data feed of a table",
        parameters=(
            "startingVersion",
            "startingTimestamp",
            "endingVersion",
            "endingTimestamp",
            "includeHistoricalMetadata",
            "includeHistoricalProtocol",
            "maxFiles",
            "pageToken",
            *_HEADERS,
        ),
        is_lines=True,
        has_version=True,
    ),
    Operation(
        id="generateTemporaryTableCredential",
        method="post",
        path=f"{_TABLE}/temporary-table-credentials",
        summary="Generate a temporary credential for the directory of a table",
        body=models.CredentialsRequest,
        answer=models.CredentialsAnswer,
    ),
)

_NUMBER: Json = {"type": "integer", "minimum": 0, "maximum": _MOST}
_TIME: Json = {"type": "string", "format": "date-time"}
_PARAMETERS: dict[str, tuple[Json, str]] = {
    "maxResults": ({"type": "integer", "minimum": 0, "maximum": 500}, "The maximum number of items per page."),
    "pageToken": ({"type": "string"}, "The nextPageToken of the previous page."),
    "version": (_NUMBER, "The version to read; the history of the table must be shared."),
    "timestamp": (_TIME, "The version at this time; the history of the table must be shared."),
    "startingVersion": (_NUMBER, "The first version."),
    "startingTimestamp": (_TIME, "The first version at or after this time."),
    "endingVersion": (_NUMBER, "The last version; the latest if it does not exist yet."),
    "endingTimestamp": (_TIME, "The last version at or before this time."),
    "includeHistoricalMetadata": ({"type": "boolean"}, "Whether to include later metadata."),
    "includeHistoricalProtocol": ({"type": "boolean"}, "Whether to include later protocols (delta format)."),
    "maxFiles": ({"type": "integer", "minimum": 1, "maximum": _MOST}, "The maximum number of files per page."),
}
_HEADER_PARAMETERS: dict[str, tuple[Json, str]] = {
    "delta-sharing-capabilities": (
        {"type": "string", "examples": ["responseformat=delta;readerfeatures=deletionvectors,columnmapping"]},
        "What the client can read: responseformat, readerfeatures, includeendstreamaction, asyncquery.",
    ),
    "fileidhash": ({"type": "string", "enum": ["parquet", "delta"]}, "The format whose file ids to return."),
}
_NAMES = {
    "share": "The name of a share.",
    "schema": "The name of a schema.",
    "table": "The name of a table.",
    "queryId": "The id of a pending query.",
}


def describe_api(config: ServerConfig) -> bytes:
    """The document as JSON."""
    paths: dict[str, Json] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation)
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Delta Sharing", "version": __version__, "description": _DESCRIPTION},
        "servers": [{"url": f"{config.public_url or ''}{config.endpoint}" or "/"}],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": _schemas(),
            "responses": {str(status): _error(text) for status, text in _ERRORS.items()},
        },
    }
    return msgspec.json.encode(document)


def _operation(operation: Operation) -> Json:
    left_out = () if operation.body else _BODY_ERRORS
    described: Json = {
        "operationId": operation.id,
        "summary": operation.summary,
        "parameters": [*_path_parameters(operation.path), *map(_parameter, operation.parameters)],
        "responses": {
            "200": _answer(operation),
            **{
                str(status): {"$ref": f"#/components/responses/{status}"}
                for status in _ERRORS
                if status not in left_out
            },
        },
    }
    if operation.body is not None:
        described["requestBody"] = {"content": {"application/json": {"schema": _reference(operation.body)}}}
    return described


def _answer(operation: Operation) -> Json:
    answer: Json = {"description": "Success."}
    if operation.answer is not None:
        answer["content"] = {"application/json": {"schema": _reference(operation.answer)}}
    if operation.is_lines:
        answer["content"] = {"application/x-ndjson": {"schema": {"type": "string", "description": _LINES}}}
        answer["headers"] = {"delta-sharing-capabilities": {"schema": {"type": "string"}}}
    if operation.has_version:
        answer["headers"] = answer.get("headers", {}) | {"Delta-Table-Version": {"schema": {"type": "integer"}}}
    return answer


def _error(description: str) -> Json:
    return {"description": description, "content": {"application/json": {"schema": _reference(models.ErrorBody)}}}


def _path_parameters(path: str) -> list[Json]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": text,
            "schema": {"type": "string", "minLength": 1},
        }
        for name, text in _NAMES.items()
        if f"{{{name}}}" in path
    ]


def _parameter(name: str) -> Json:
    where = "header" if name in _HEADER_PARAMETERS else "query"
    schema, description = (_HEADER_PARAMETERS | _PARAMETERS)[name]
    return {"name": name, "in": where, "description": description, "schema": schema}


def _reference(model: type[msgspec.Struct]) -> Json:
    return {"$ref": _REFERENCE.format(name=model.__name__)}


def _schemas() -> Json:
    wanted = [model for o in OPERATIONS for model in (o.body, o.answer) if model is not None]
    _, components = msgspec.json.schema_components(
        [*dict.fromkeys(wanted), models.ErrorBody, *_LINE_MODELS], ref_template=_REFERENCE
    )
    for name in ("QueryRequest", "QueryStatusRequest"):
        for key, schema in components[name]["properties"].items():
            schema["anyOf"] = [form for choice in schema["anyOf"] for form in _accepted(key, choice)]
    return components


def _accepted(key: str, schema: Json) -> list[Json]:
    """The accepted forms of a request value: some clients send numbers and flags as text."""
    match schema.get("type"):
        case "integer":
            least = _LEAST.get(key, 0)
            return [
                schema | {"minimum": least, "maximum": _MOST},
                {"type": "string", "pattern": f"^[{least}-9][0-9]{{0,17}}$"},
            ]
        case "boolean":
            return [schema, {"enum": [0, 1, "0", "1", "true", "false", "True", "False"]}]
    return [schema]
