"""The commits of a shared table are those of the same table by its path."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lakeport
from lakeport import tables
from lakeport.kernel.changes import TableCommits
from lakeport.source import LATEST, PathTable, TableSource
from tests.client.reading import frame_of, server_at
from tests.server.running import running, sharing


@pytest.fixture(params=["delta", "parquet"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[TableSource, PathTable]]:
    path = str(tmp_path / "t")
    tables.create(path, {"id": [1, 2], "day": ["a", "b"]}, partition_by=["day"])
    tables.append(path, {"id": [3], "day": ["a"]})
    tables.optimize(path)
    tables.delete(path, "id = 2")
    tables.append(path, {"id": [4], "day": [None]})
    by_path = lakeport.scan(path).source
    assert isinstance(by_path, PathTable)
    with (
        running(sharing({"s.s.t": path}, history_shared=True)) as server,
        server_at(server.endpoint, formats=(request.param,)) as client,
    ):
        yield frame_of(client, "s.s.t").source, by_path


def facts(commits: TableCommits) -> list[Any]:
    """What does not depend on the names of files."""
    return [
        (commit.version, commit.removes, sorted((str(f.partition_values), f.size) for f in commit.added))
        for commit in commits
    ]


def test_a_server_tells_the_same_commits_as_the_log(shared: tuple[TableSource, PathTable]) -> None:
    by_url, by_path = shared
    latest = by_path.latest_version()
    assert by_url.latest_version() == latest
    for start, end in [(0, latest), (1, 1), (2, latest), (latest, latest)]:
        assert facts(by_url.commits(start, end)) == facts(by_path.commits(start, end))


def test_the_files_of_a_commit_can_be_read(shared: tuple[TableSource, PathTable]) -> None:
    by_url, by_path = shared
    for source in (by_url, by_path):
        [commit] = source.commits(1, 1)
        engine = source.engine_for(commit.added)
        assert [engine.storage.read(file.path)[:4] for file in commit.added] == [b"PAR1"]


def test_a_version_is_found_by_its_time(shared: tuple[TableSource, PathTable]) -> None:
    by_url, by_path = shared
    for commit in by_path.history(by_path.head(LATEST), None):
        assert by_url.version_since(commit.timestamp) == by_path.version_since(commit.timestamp) == commit.version


def test_what_is_forgotten_is_no_longer_there(shared: tuple[TableSource, PathTable]) -> None:
    by_url, _ = shared
    first, second = by_url.commits(0, 1), by_url.commits(4, 4)
    by_url.forget(first.snapshot.root)
    assert not list(by_url.engine.storage.list_all(f"{first.snapshot.root}/_delta_log"))
    [kept] = next(iter(second)).added
    assert by_url.engine.storage.read(kept.path)[:4] == b"PAR1"
