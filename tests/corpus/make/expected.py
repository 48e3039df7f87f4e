"""The rows that a writer reads back, as Parquet files; equal rows share one file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Entry = dict[str, Any]


class Expectations:
    """What a writer says of one table. Paths are relative to `folder`, the corpus."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self.versions: dict[str, Entry] = {}
        self.changes: list[Entry] = []
        self.active_files = 0
        self._written: list[tuple[pa.Table, str]] = []

    def add_version(self, version: int, rows: pa.Table) -> None:
        self.versions[str(version)] = {"rows": rows.num_rows, "parquet": self._write(f"v{version}", rows)}

    def add_changes(self, start: int, end: int, rows: pa.Table) -> None:
        """Add a range of the change feed, less the times of its commits, which git does not keep."""
        rows = rows.drop_columns("_commit_timestamp")
        path = self._write(f"changes-{start}-{end}", rows)
        self.changes.append({"start": start, "end": end, "rows": rows.num_rows, "parquet": path, "error": None})

    def save(self) -> None:
        """Keep this for the manifest, which another process may write."""
        said = {"versions": self.versions, "changes": self.changes, "active_files": self.active_files}
        path = self.folder / "said" / f"{self.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(said))

    def _write(self, stem: str, rows: pa.Table) -> str:
        rows = rows.replace_schema_metadata(None).combine_chunks()
        for other, path in self._written:
            if rows.schema == other.schema and rows.equals(other):
                return path
        path = f"expected/{self.name}/{stem}.parquet"
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, target, compression="zstd", write_statistics=False, store_schema=False)
        self._written.append((rows, path))
        return path


def change_ranges(table: Path) -> list[tuple[int, int]]:
    """The versions throughout which the change feed is on until the last one, and a part of them.

    Both end with the schema of the last version: Delta on Spark reads every range with that schema, other readers with
    the schema at the end of the range."""
    start, schema, schema_since = None, None, 0
    for version in versions_of(table):
        for line in (table / "_delta_log" / f"{version:020d}.json").read_text(encoding="utf-8").splitlines():
            metadata = json.loads(line).get("metaData")
            if metadata is not None:
                on = metadata["configuration"].get("delta.enableChangeDataFeed") == "true"
                start = (version if start is None else start) if on else None
                if metadata["schemaString"] != schema:
                    schema, schema_since = metadata["schemaString"], version
    if start is None:
        return []
    end = version
    shorter = (start + 1, max(end - 1, schema_since))
    return [(start, end), *([shorter] if shorter[0] < shorter[1] else [])]


def versions_of(table: Path) -> list[int]:
    return sorted(int(commit.stem) for commit in (table / "_delta_log").glob("[0-9]" * 20 + ".json"))
