"""`schema`, `files` and `history`: a table according to its log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, Self

import msgspec
import typer

from lakeport.cli.display import print_json, print_json_lines, print_table, print_text, printable
from lakeport.cli.options import Access, Json, ReadTarget, StorageOption, Timestamp, Version, Where, open_frame
from lakeport.frame import Frame
from lakeport.kernel.log import CommitInfo, format_time
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.schema import format_schema, format_type
from lakeport.kernel.snapshot import Snapshot


def schema(
    target: ReadTarget,
    version: Version = None,
    timestamp: Timestamp = None,
    json: Json = False,
    access: Access = None,
    option: StorageOption = None,
) -> None:
    """Show the columns, the version and the properties of a table."""
    frame = open_frame(target, option, version, timestamp, access=access)
    snapshot = frame.definition
    table = Described.of(frame)
    if json:
        print_json(_schema_document(snapshot, table))
        return
    rows = [
        [f.name, format_type(f.type), "" if f.nullable else "not null", _role(f.name, snapshot)]
        for f in snapshot.schema
    ]
    print_table(["column", "type", "null", "partition"], rows, [False] * 4)
    made = "" if table.made is None else f", committed {table.made}"
    print_text(f"\n{printable(table.place)} at version {snapshot.version}{made}")
    for name, value in sorted(snapshot.properties.items()):
        print_text(f"  {printable(name)} = {printable(str(value))}")


def files(
    target: ReadTarget,
    where: Where = None,
    limit: Annotated[int | None, typer.Option(min=0, metavar="N", help="List at most N files.")] = None,
    version: Version = None,
    timestamp: Timestamp = None,
    json: Json = False,
    access: Access = None,
    option: StorageOption = None,
) -> None:
    """List the data files; with --where, only those that need to be read. With --json, print one object per line."""
    frame = open_frame(target, option, version, timestamp, access=access, where=where)
    snapshot = frame.snapshot
    documents = [_file_document(file, snapshot) for file in frame.files()[:limit]]
    if json:
        print_json_lines(documents)
        return
    rows = [
        [d["size"], d["rows"], _pairs(d["partitionValues"]), _deleted(d), d["path"].removeprefix(f"{snapshot.root}/")]
        for d in documents
    ]
    print_table(["size", "rows", "partition", "deletion vector", "path"], rows, [True, True, False, False, False])


def history(
    target: ReadTarget,
    limit: Annotated[int | None, typer.Option(min=0, metavar="N", help="List at most N commits.")] = None,
    version: Version = None,
    timestamp: Timestamp = None,
    json: Json = False,
    access: Access = None,
    option: StorageOption = None,
) -> None:
    """List the commits, newest first. With --json, print one object per line."""
    commits = open_frame(target, option, version, timestamp, access=access).history(limit)
    documents = [_commit_document(commit) for commit in commits]
    if json:
        print_json_lines(documents)
        return
    rows = [[d["version"], d["timestamp"], d["operation"], _pairs(d["operationParameters"])] for d in documents]
    print_table(["version", "time", "operation", "parameters"], rows, [True, False, False, False])


class Described(NamedTuple):
    """A table's location, and the time of its version, if known."""

    place: str
    made: str | None

    @classmethod
    def of(cls, frame: Frame) -> Self:
        """Describe a frame's table; one behind signed URLs has only a name."""
        if frame.source.prunes:
            return cls(frame.target, None)
        snapshot = frame.definition
        return cls(snapshot.root, format_time(snapshot.timestamp))


def _role(name: str, snapshot: Snapshot) -> str:
    return "partition" if name in snapshot.partition_columns else ""


def _schema_document(snapshot: Snapshot, table: Described) -> dict[str, Any]:
    columns = msgspec.json.decode(format_schema(snapshot.schema))["fields"]
    protocol = snapshot.protocol
    return {
        "table": table.place,
        "version": snapshot.version,
        "timestamp": table.made,
        "columns": [column | {"partition": column["name"] in snapshot.partition_columns} for column in columns],
        "partitionColumns": snapshot.partition_columns,
        "properties": snapshot.properties,
        "protocol": protocol,
    }


def _file_document(file: ScanFile, snapshot: Snapshot) -> dict[str, Any]:
    names = zip(snapshot.partition_columns, snapshot.physical_partition_columns, strict=True)
    return {
        "path": file.path,
        "size": file.size,
        "rows": file.num_records,
        "modificationTime": format_time(file.modification_time),
        "partitionValues": {logical: file.partition_values.get(physical) for logical, physical in names},
        "deletionVector": file.deletion_vector,
    }


def _commit_document(commit: CommitInfo) -> dict[str, Any]:
    names = ("operation", "operationParameters", "operationMetrics", "engineInfo", "userName")
    return {"version": commit.version, "timestamp": format_time(commit.timestamp)} | {
        name: commit.info.get(name) for name in names
    }


def _pairs(values: Any) -> str:
    if not isinstance(values, Mapping):
        return ""
    return ", ".join(f"{name}={'null' if value is None else value}" for name, value in values.items())


def _deleted(document: dict[str, Any]) -> str:
    vector = document["deletionVector"]
    return "" if vector is None else f"{vector.cardinality} deleted"
