"""A provider's server whose tables are what a test says, line by line, as no server of ours would write them.

with providing(Shared(schema(a="long"), [DataFile("1", pa.table({"a": [1, 2]}))])) as provider:
    provider.frame().to_arrow()
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from lakeport.frame import Frame
from lakeport.testing.http import Asked, Scripted, Steps, reply, scripted
from tests.client.reading import frame_of, server_at
from tests.client.timing import pool

Format = Literal["parquet", "delta"]
FORMATS: tuple[Format, ...] = ("parquet", "delta")
NAME = "share_name.schema_name.table_name"
_DELTA_KINDS = {"file": "add", "add": "add", "remove": "remove", "cdf": "cdc"}


def schema(**types: Any) -> str:
    """A schema with as little in it as a reader has to accept: names and types."""
    return json.dumps({"type": "struct", "fields": [{"name": name, "type": kind} for name, kind in types.items()]})


@dataclass(frozen=True, repr=False)
class DataFile:
    """A file and what its line says. In a snapshot its kind is `file`; in changes `add`, `remove` or `cdf`."""

    id: str
    rows: pa.Table
    values: Mapping[str, str | None] = field(default_factory=dict)
    kind: str = "file"
    version: int | None = None
    timestamp: int | None = None
    stats: str | None = None
    query: str = "sig=secret"
    compression: str = "snappy"

    @property
    def content(self) -> bytes:
        packed = io.BytesIO()
        pq.write_table(self.rows, packed, compression=self.compression)
        return packed.getvalue()


@dataclass(repr=False)
class Shared:
    """A table in one of the formats. It is a script: `answers` has what is answered first, before all goes well."""

    schema: str
    files: Sequence[DataFile] = ()
    partition_columns: Sequence[str] = ()
    format: Format = "parquet"
    version: int = 1
    reader_version: int = 1
    configuration: Mapping[str, str] | None = None
    id: str = "some-table"
    access_modes: Sequence[str] = ("url",)
    answers: list[Steps] = field(default_factory=list)
    refresh_tokens: list[str] = field(default_factory=list)
    """Those of the answers to queries, in turn. Answers have none by default."""
    url: str = ""

    def __call__(self, asked: Asked) -> Steps:
        if self.answers:
            return self.answers.pop(0)
        name = asked.path.rpartition("/")[2]
        if name.endswith(".parquet"):
            return self._content(asked, name.removesuffix(".parquet"))
        lines = self.head() + ([] if name == "metadata" else [self.line(file) for file in self.files])
        if name == "query" and self.refresh_tokens:
            lines.append({"endStreamAction": {"refreshToken": self.refresh_tokens.pop(0)}})
        headers = {"delta-table-version": str(self.version), "delta-sharing-capabilities": self.capabilities}
        return reply("".join(json.dumps(line) + "\n" for line in lines).encode(), headers=headers)

    @property
    def capabilities(self) -> str:
        return f"responseformat={self.format}"

    def head(self) -> list[dict[str, Any]]:
        protocol = {"minReaderVersion": self.reader_version}
        metadata: dict[str, Any] = {
            "id": self.id,
            "accessModes": list(self.access_modes),
            "format": {"provider": "parquet"},
            "schemaString": self.schema,
            "partitionColumns": list(self.partition_columns),
        }
        metadata |= {} if self.configuration is None else {"configuration": dict(self.configuration)}
        if self.format == "delta":
            wrapped = {"deltaProtocol": protocol | {"minWriterVersion": 2}}
            return [{"protocol": wrapped}, {"metaData": {"deltaMetadata": metadata}}]
        return [{"protocol": protocol}, {"metaData": metadata}]

    def line(self, file: DataFile) -> dict[str, Any]:
        url, size = f"{self.url}/files/{file.id}.parquet?{file.query}", len(file.content)
        moment = {"version": file.version, "timestamp": file.timestamp} if file.version is not None else {}
        shared = {"partitionValues": dict(file.values), "size": size}
        shared |= {} if file.stats is None else {"stats": file.stats}
        if self.format == "parquet":
            return {file.kind: {"id": file.id, "url": url, **shared, **moment}}
        action = {"path": url, "dataChange": file.kind != "cdf", "modificationTime": 1000, **shared}
        return {"file": {"id": file.id, "deltaSingleAction": {_DELTA_KINDS[file.kind]: action}, **moment}}

    def _content(self, asked: Asked, identity: str) -> Steps:
        content = next(file for file in self.files if file.id == identity).content
        first, last = map(int, asked.headers["range"].removeprefix("bytes=").split("-"))
        last = min(last, len(content) - 1)
        return reply(content[first : last + 1], 206, {"content-range": f"bytes {first}-{last}/{len(content)}"})


@dataclass(frozen=True)
class Provider:
    server: Scripted
    opened: Frame

    def frame(self) -> Frame:
        """The table, not looked at yet."""
        return self.opened

    @property
    def asked(self) -> list[Asked]:
        return self.server.asked

    def body(self, name: str) -> dict[str, Any]:
        """What the last request for `query` and the like had in its body."""
        found: dict[str, Any] = json.loads([one for one in self.asked if one.path.endswith(f"/{name}")][-1].body)
        return found


@contextmanager
def providing(shared: Shared) -> Iterator[Provider]:
    with scripted(shared) as server, pool() as http:
        shared.url = server.url
        yield Provider(server, frame_of(server_at(server.url, http), NAME))
