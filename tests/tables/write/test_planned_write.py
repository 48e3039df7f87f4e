"""Writes that are planned here, written anywhere and committed once: the table is as `append`, `overwrite` and `create`
would have made it."""

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeport
from lakeport import tables
from lakeport.engine import default_engine
from lakeport.errors import CommitConflictError, ConstraintError, InvalidDataError, UnsupportedFeatureError
from lakeport.kernel.schema import schema_from_arrow
from lakeport.kernel.snapshot import Table
from lakeport.tables.write.overwrite import Replacing
from lakeport.tables.write.planned import (
    PlannedWrite,
    WrittenFiles,
    check_columns,
    commit_files,
    discard_files,
    plan_append,
    plan_create,
    plan_overwrite,
    write_task,
)
from tests.rows import ids

ENGINE = default_engine()
SCHEMA = pa.schema([("id", pa.int64())])
COLUMNS = schema_from_arrow(SCHEMA)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def table(path: str) -> Table:
    return Table.for_path(ENGINE, path)


def task(planned: PlannedWrite, *numbers: int) -> WrittenFiles:
    """What a worker does, to which the plan has travelled."""
    engine, there = pickle.loads(pickle.dumps((ENGINE, planned)))
    written = write_task(engine, there, [pa.record_batch({"id": pa.array(numbers, pa.int64())})])
    return pickle.loads(pickle.dumps(written))  # type: ignore[no-any-return]


def data_files(path: str) -> list[Path]:
    return [file for file in Path(path).rglob("*.parquet") if "_delta_log" not in file.parts]


def appending(path: str, **options: Any) -> PlannedWrite:
    planned = plan_append(table(path).latest_snapshot(), COLUMNS, **options)
    assert planned is not None
    return planned


def overwriting(path: str, **options: Any) -> PlannedWrite:
    planned = plan_overwrite(table(path).latest_snapshot(), COLUMNS, Replacing(**options))
    assert planned is not None
    return planned


def test_tasks_in_other_processes_write_the_files_of_one_commit(path: str) -> None:
    planned = plan_create(table(path), COLUMNS)
    assert commit_files(ENGINE, planned, [task(planned, 1, 2), task(planned, 3)]).version == 0
    planned = appending(path)
    result = commit_files(ENGINE, pickle.loads(pickle.dumps(planned)), [task(planned, 4), WrittenFiles()])
    assert result.version == 1
    assert result.metrics["numOutputRows"] == 1
    assert ids(path) == [1, 2, 3, 4]


def test_two_writers_that_create_one_table_are_a_conflict_and_the_second_leaves_no_file(path: str) -> None:
    first, second = plan_create(table(path), COLUMNS), plan_create(table(path), COLUMNS)
    written = task(second, 2)
    commit_files(ENGINE, first, [task(first, 1)])
    with pytest.raises(CommitConflictError, match="created the table"):
        commit_files(ENGINE, second, [written])
    assert len(data_files(path)) == 1


def test_an_overwrite_conflicts_with_rows_that_were_removed_since_it_was_planned(path: str) -> None:
    tables.create(path, {"id": [1]})
    planned = overwriting(path)
    written = task(planned, 5)
    tables.delete(path)
    with pytest.raises(CommitConflictError):
        commit_files(ENGINE, planned, [written])
    assert len(data_files(path)) == 1


@pytest.mark.parametrize("vectors", ["true", "false"], ids=["with vectors", "without vectors"])
def test_a_condition_replaces_rows_inside_of_files_and_the_change_feed_tells_of_it(path: str, vectors: str) -> None:
    properties = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": vectors}
    tables.create(path, {"id": [1, 2, 3, 4]}, properties=properties)
    planned = overwriting(path, where="id > 2")
    assert planned.imaged == (vectors == "false")
    commit_files(ENGINE, planned, [task(planned, 30), task(planned, 40)])
    assert ids(path) == [1, 2, 30, 40]
    changes = lakeport.scan(path).changes(1, 1).to_arrow().to_pylist()
    assert sorted((change["_change_type"], change["id"]) for change in changes) == [
        ("delete", 3),
        ("delete", 4),
        ("insert", 30),
        ("insert", 40),
    ]


def test_a_row_that_the_condition_does_not_hold_for_is_refused_by_the_task(path: str) -> None:
    tables.create(path, {"id": [1]})
    planned = overwriting(path, where="id > 2")
    with pytest.raises(ConstraintError, match="where"):
        task(planned, 2)


def test_columns_that_a_plan_adds_have_the_same_names_in_files_and_in_the_commit(path: str) -> None:
    tables.create(path, {"id": [1]}, properties={"delta.columnMapping.mode": "name"})
    wider = schema_from_arrow(pa.schema([("id", pa.int64()), ("more", pa.string())]))
    planned = plan_append(table(path).latest_snapshot(), wider, merge_schema=True)
    assert planned is not None
    written = write_task(ENGINE, planned, [pa.record_batch({"id": pa.array([2]), "more": pa.array(["x"])})])
    commit_files(ENGINE, planned, [written])
    found = sorted(lakeport.scan(path).to_arrow().to_pylist(), key=lambda row: row["id"])
    assert found == [{"id": 1, "more": None}, {"id": 2, "more": "x"}]


def test_work_that_is_in_the_table_is_not_planned_again(path: str) -> None:
    planned = plan_create(table(path), COLUMNS, application=("nightly", 3))
    commit_files(ENGINE, planned, [task(planned, 1)])
    snapshot = table(path).latest_snapshot()
    assert plan_append(snapshot, COLUMNS, application=("nightly", 3)) is None
    assert plan_overwrite(snapshot, COLUMNS, Replacing(), application=("nightly", 2)) is None
    assert plan_append(snapshot, COLUMNS, application=("nightly", 4)) is not None


def test_work_that_turns_out_to_be_in_the_table_is_not_committed_and_its_files_go(path: str) -> None:
    planned = plan_create(table(path), COLUMNS)
    commit_files(ENGINE, planned, [task(planned, 1)], ("query", 0))
    planned = appending(path)
    assert commit_files(ENGINE, planned, [task(planned, 1)], ("query", 0)).version == 0
    assert ids(path) == [1]
    assert len(data_files(path)) == 1
    assert commit_files(ENGINE, planned, [task(planned, 2)], ("query", 1)).version == 1


def test_nothing_written_is_no_version(path: str) -> None:
    tables.create(path, {"id": [1]})
    assert commit_files(ENGINE, appending(path), [WrittenFiles()], ("query", 0)).version == 0


def test_discarded_files_are_gone(path: str) -> None:
    planned = plan_create(table(path), COLUMNS)
    written = [task(planned, 1), task(planned, 2)]
    assert len(data_files(path)) == 2
    discard_files(ENGINE, planned, written)
    assert data_files(path) == []


def test_a_table_that_only_takes_appends_is_not_planned_to_be_overwritten(path: str) -> None:
    tables.create(path, {"id": [1]}, properties={"delta.appendOnly": "true"})
    with pytest.raises(UnsupportedFeatureError, match="append-only"):
        overwriting(path)


def test_columns_are_checked_without_a_row(path: str) -> None:
    tables.create(path, schema="id long not null, day date, n long")
    planned = appending(path)
    check_columns(ENGINE, planned, pa.schema([("ID", pa.int32()), ("day", pa.date32())]))
    with pytest.raises(InvalidDataError, match="the table has no column 'other'"):
        check_columns(ENGINE, planned, pa.schema([("id", pa.int64()), ("other", pa.int64())]))
    with pytest.raises(InvalidDataError, match="the column 'day' is int64 in the data"):
        check_columns(ENGINE, planned, pa.schema([("id", pa.int64()), ("day", pa.int64())]))
    with pytest.raises(ConstraintError, match="the data has no column 'id'"):
        check_columns(ENGINE, planned, pa.schema([("n", pa.int64())]))
