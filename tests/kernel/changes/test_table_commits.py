"""The commits of a table, as a stream follows them."""

from __future__ import annotations

import pytest

from lakeport.engine import memory_engine
from lakeport.errors import UnsupportedFeatureError, VersionNotFoundError
from lakeport.kernel.changes import CommitFiles, TableCommits
from lakeport.kernel.snapshot import Table
from lakeport.testing.builder import TableBuilder, protocol, remove, struct

ROOT = "memory:///t"


@pytest.fixture
def builder() -> TableBuilder:
    features = protocol(features=["deletionVectors"])
    return TableBuilder(memory_engine(), ROOT, struct(id="long", day="string"), ["day"], protocol=features).create()


def commits(builder: TableBuilder, start: int, end: int | None = None) -> list[CommitFiles]:
    table = Table.for_path(builder.engine, builder.root)
    return list(TableCommits(table, start, builder.version if end is None else end))


def test_a_commit_tells_the_files_that_it_added(builder: TableBuilder) -> None:
    first, second = (builder.add({"id": [number]}, {"day": f"day {number}"}) for number in range(2))
    builder.commit(first, second)
    builder.commit()
    created, added, empty = commits(builder, 0)
    assert [file.partition_values for file in added.added] == [{"day": "day 0"}, {"day": "day 1"}]
    assert [file.path for file in added.added] == [f"{ROOT}/{add['add']['path']}" for add in (first, second)]
    assert (created.added, empty.added, added.removes) == ((), (), False)
    assert created.metadata is not None
    assert added.metadata is None
    assert [commit.version for commit in (created, added, empty)] == [0, 1, 2]


def test_files_that_were_only_rearranged_are_not_told(builder: TableBuilder) -> None:
    old, new = builder.add({"id": [1]}, {"day": "a"}), builder.add({"id": [1]}, {"day": "a"})
    builder.commit(old)
    moved = remove(old)
    moved["remove"]["dataChange"] = new["add"]["dataChange"] = False
    builder.commit(new, moved)
    [commit] = commits(builder, 2)
    assert (commit.added, commit.removes) == ((), False)


def test_a_commit_that_takes_rows_away_says_so(builder: TableBuilder) -> None:
    add = builder.add({"id": [1, 2, 3]}, {"day": "a"})
    builder.commit(add)
    builder.commit(*builder.delete(add, [1]))
    [by_vector] = commits(builder, 2)
    assert by_vector.removes
    assert [file.deletion_vector is not None for file in by_vector.added] == [True]
    builder.commit(remove(add))
    [whole] = commits(builder, 3)
    assert (whole.added, whole.removes) == ((), True)


def test_a_range_that_is_not_there_is_said_at_once(builder: TableBuilder) -> None:
    table = Table.for_path(builder.engine, builder.root)
    with pytest.raises(VersionNotFoundError, match="no version 3"):
        TableCommits(table, 0, 3)
    builder.commit(builder.add({"id": [1]}, {"day": "a"})).commit().checkpoint()
    builder.engine.storage.delete([builder.log_file(f"{0:020d}.json"), builder.log_file(f"{1:020d}.json")])
    with pytest.raises(VersionNotFoundError, match="changes of version 1 are gone") as error:
        TableCommits(table, 1, 2)
    assert error.value.earliest == 2


def test_a_commit_that_needs_what_nobody_knows_stops(builder: TableBuilder) -> None:
    builder.commit(protocol(features=["somethingNew"]))
    builder.commit(protocol(features=["deletionVectors"]))
    with pytest.raises(UnsupportedFeatureError, match="somethingNew"):
        commits(builder, 0)
