"""Reads rows the way a client does: fetches the files of an answer by their URLs, and puts their rows together.

In the parquet format a row is that of the file, with partition values from the line. In the delta format the lines
become a Delta log in a directory, which a Delta reader opens; lines of the parquet format can be put into one, too.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import requests

import lakeport
from tests.conformance.target import Answer, File

Rows = list[tuple[Any, ...]]


_PARSERS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "integer": int,
    "long": int,
    "date": date.fromisoformat,
    "float": float,
    "double": float,
    "boolean": {"true": True, "false": False}.__getitem__,
    "timestamp": lambda text: _utc(datetime.fromisoformat(text)),
}


def fetch(url: str) -> bytes:
    """A file by its URL, without any credentials."""
    response = requests.get(url, timeout=60)
    assert response.status_code == 200, response.text
    return response.content


def snapshot_rows(answer: Answer, directory: Path) -> Rows:
    """The rows of a snapshot."""
    if answer.format == "delta":
        log = LocalLog(answer, directory)
        log.commit(0, answer.files)
        return rows_of(lakeport.scan(str(directory)).to_arrow())
    return _sorted(row for file in answer.files for row in _parquet_rows(file, answer.fields))


def change_rows(answer: Answer, directory: Path, end: int) -> Rows:
    """The rows of a change data feed up to a version, with the columns of changes."""
    if answer.format == "delta":
        return rows_of(local_changes(answer, directory, end))
    rows: list[tuple[Any, ...]] = []
    for file in answer.files:
        version, stamp = file.body["version"], _instant(file.body["timestamp"])
        kind = {"add": "insert", "remove": "delete", "cdf": None}[file.kind]
        fields = answer.fields + ([{"name": "_change_type", "type": "string"}] if kind is None else [])
        for row in _parquet_rows(file, fields):
            rows.append((*row, *(() if kind is None else (kind,)), version, stamp))
    return _sorted(rows)


def local_changes(answer: Answer, directory: Path, end: int) -> pa.Table:
    """The changes of a local log. It begins at version 0, so that versions are moved."""
    start = answer.version
    log = LocalLog(answer, directory)
    for version in range(start, end + 1):
        log.commit(version - start, [file for file in answer.files if file.body["version"] == version])
    found = lakeport.scan(str(directory)).changes(0).to_arrow()
    index = found.schema.get_field_index("_commit_version")
    moved = pa.array([version + start for version in found.column(index).to_pylist()], pa.int64())
    return found.set_column(index, "_commit_version", moved)


class LocalLog:
    """A Delta table made of the lines of an answer, with the files that they name beside it."""

    def __init__(self, answer: Answer, directory: Path) -> None:
        self._answer, self._directory = answer, directory
        self._paths: dict[str, str] = {}
        (directory / "_delta_log").mkdir(parents=True)

    def commit(self, version: int, files: Iterable[File]) -> None:
        files = list(files)
        stamp = next((file.body["timestamp"] for file in files if "timestamp" in file.body), version)
        actions: list[dict[str, Any]] = [{"commitInfo": {"inCommitTimestamp": stamp}}]
        if version == 0:
            actions += [{"protocol": self._protocol()}, {"metaData": self._metadata()}]
        actions += [self._local(file) for file in files]
        log = self._directory / "_delta_log" / f"{version:020d}.json"
        log.write_text("".join(json.dumps(action) + "\n" for action in actions))

    def _protocol(self) -> dict[str, Any]:
        plain = {"minReaderVersion": 1, "minWriterVersion": 4}
        return dict(self._answer.protocol.get("deltaProtocol", plain))

    def _metadata(self) -> dict[str, Any]:
        """With the times of the commits as the lines tell them."""
        metadata = self._answer.delta_metadata
        properties = metadata.get("configuration", {}) | {"delta.enableInCommitTimestamps": "true"}
        if "enableChangeDataFeed" in properties:
            properties["delta.enableChangeDataFeed"] = properties.pop("enableChangeDataFeed")
        return {**metadata, "format": {"provider": "parquet", "options": {}}, "configuration": properties}

    def _local(self, file: File) -> dict[str, Any]:
        plain = {"modificationTime": 0, "dataChange": file.kind != "cdf"}
        action = {**plain, **file.action, "path": quote(self._fetched(file.url))}
        vector = action.get("deletionVector")
        if vector is not None and vector["storageType"] == "p":
            path = str(self._directory / self._fetched(vector["pathOrInlineDv"]))
            action["deletionVector"] = {**vector, "pathOrInlineDv": path}
        return {"cdc" if file.kind == "cdf" else file.kind: action}

    def _fetched(self, url: str) -> str:
        """The name of the file of a URL; two URLs are two files."""
        if url not in self._paths:
            self._paths[url] = f"file-{len(self._paths)}"
            (self._directory / self._paths[url]).write_bytes(fetch(url))
        return self._paths[url]


def _parquet_rows(file: File, fields: list[dict[str, Any]]) -> Rows:
    content = fetch(file.url)
    assert len(content) == file.body["size"]
    data = pq.read_table(io.BytesIO(content))
    columns = [_column(data, field, file.body["partitionValues"]) for field in fields]
    return list(zip(*columns, strict=True))


def _column(data: pa.Table, field: dict[str, Any], partition: dict[str, str | None]) -> list[Any]:
    name = field["name"]
    if name in partition:
        return [parse_partition_value(partition[name], field["type"])] * data.num_rows
    return data.column(name).to_pylist() if name in data.column_names else [None] * data.num_rows


def parse_partition_value(text: str | None, kind: str) -> Any:
    """See "Partition Value Serialization": an empty text is null."""
    return _PARSERS[kind](text) if text else None


def table_rows(location: str, version: int | None = None) -> Rows:
    """What the table itself holds."""
    frame = lakeport.scan(location)
    return rows_of((frame if version is None else frame.at(version=version)).to_arrow())


def table_changes(location: str, start: int, end: int | None = None) -> Rows:
    return rows_of(lakeport.scan(location).changes(start, end).to_arrow())


def rows_of(table: pa.Table) -> Rows:
    return _sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _sorted(rows: Iterable[tuple[Any, ...]]) -> Rows:
    return sorted(rows, key=repr)


def _instant(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds // 1000, UTC).replace(microsecond=milliseconds % 1000 * 1000)


def _utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
