"""A provider whose tables a test writes, and a recipient who copies them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakeport
from lakeport.client.sync import SyncResult
from lakeport.kernel.snapshot import Snapshot
from tests.server.running import TOKEN, Running, running, sharing


@dataclass(frozen=True)
class Provider:
    """A server of the tables in a folder: `table` there is `share.schema.table`."""

    server: Running
    folder: Path

    @property
    def profile(self) -> Path:
        return self.folder / "ann.share"

    def path(self, table: str) -> str:
        return str(self.folder / table)

    def target(self, table: str) -> str:
        return f"{self.profile}#share.schema.{table}"

    def sync(self, table: str, dest: Path | str, **options: Any) -> SyncResult:
        return lakeport.sync(self.target(table), str(dest), **options)


@contextmanager
def providing(folder: Path, *tables: str, history_shared: bool = True, **settings: Any) -> Iterator[Provider]:
    """`settings` are those of the server."""
    folder.mkdir(exist_ok=True)
    content = sharing({f"share.schema.{name}": folder / name for name in tables}, history_shared=history_shared)
    with running(content, **settings) as server:
        provider = Provider(server, folder)
        profile = {"shareCredentialsVersion": 1, "endpoint": server.endpoint, "bearerToken": TOKEN}
        provider.profile.write_text(json.dumps(profile))
        yield provider


def changes(path: Path | str, start: int) -> list[Any]:
    """What changed from a version on, in an order that depends on nothing else; without the versions and times."""
    found: pa.Table = lakeport.scan(str(path)).changes(start=start).to_arrow()
    return sorted(map(str, found.drop_columns(["_commit_version", "_commit_timestamp"]).to_pylist()))


def snapshot(path: Path | str) -> Snapshot:
    return lakeport.scan(str(path)).snapshot


def synced_version(path: Path | str) -> int:
    return int(snapshot(path).properties["lakeport.sync.version"] or -1)


def data_files(path: Path | str) -> dict[str, bytes]:
    """The contents of the files of the latest version, by their names."""
    return {Path(file.path).name: Path(file.path).read_bytes() for file in lakeport.scan(str(path)).files()}
