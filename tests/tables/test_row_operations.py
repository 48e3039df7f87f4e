"""What `delete`, `update`, `overwrite` and `merge` promise alike: all or nothing, once, and no file left behind."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lakeport import lit, tables
from lakeport.engine import engine_over
from lakeport.errors import (
    CommitConflictError,
    InvalidDataError,
    InvalidFilterError,
    StorageError,
    UnknownColumnError,
    UnsupportedFeatureError,
)
from lakeport.tables import Result
from tests.properties import FEED, VECTORS
from tests.tables.modelled import FailingStorage, ModelledTable, RivalStorage, as_table, some_rows


class Operation:
    """An operation to be done to a table."""

    def __init__(self, name: str, **arguments: Any) -> None:
        self._name, self._arguments = name, arguments

    def __call__(self, table: ModelledTable, **options: Any) -> Result:
        result: Result = getattr(tables, self._name)(table.path, **self._arguments, **options)
        return result

    def __str__(self) -> str:
        told = (f"{name}={value}" for name, value in self._arguments.items() if name != "data")
        return " ".join([self._name, *told])


class Merging(Operation):
    def __call__(self, table: ModelledTable, **options: Any) -> Result:
        source = as_table([*some_rows(0, 10), *some_rows(100, 110)])
        merge = tables.merge(table.path, source, "target.id = source.id", **options)
        return merge.when_matched_update({"n": 1}).when_not_matched_insert_all().execute()


def name_of(value: Any) -> str | None:
    return None if isinstance(value, set) else getattr(value, "__name__", str(value))


delete, update, merge = partial(Operation, "delete"), partial(Operation, "update"), Merging("merge")
each = partial(pytest.mark.parametrize, ids=name_of)


def overwrite(start: int = 0, end: int = 3, **how: Any) -> Operation:
    return Operation("overwrite", data=as_table(some_rows(start, end)), **how)


@each(
    ("operation", "metric"),
    [
        (delete(where="id > 1000 OR text = 'nowhere'"), "numDeletedRows"),
        (update(set={"n": 1}, where="id = 1000"), "numUpdatedRows"),
    ],
)
def test_nothing_is_committed_where_no_row_matches(tmp_path: Path, operation: Operation, metric: str) -> None:
    table = ModelledTable.create(tmp_path, VECTORS | FEED)
    before, version = table.files_on_disk(), table.version
    result = operation(table)
    assert result.version == version == table.version
    assert result.metrics[metric] == 0
    assert table.files_on_disk() == before
    table.check()


CONDITIONS = [
    ("id >", InvalidFilterError),
    ("nowhere = 1", UnknownColumnError),
    ("id = 'text'", InvalidFilterError),
    ("id + 1", InvalidFilterError),
    (5, ValueError),
]
ASSIGNMENTS: list[tuple[dict[str, Any], str | None, Any]] = [
    ({}, None, ValueError),
    ({"nowhere": 1}, None, UnknownColumnError),
    ({"n": "nowhere + 1"}, None, UnknownColumnError),
    ({"n": "1 +"}, None, InvalidFilterError),
    ({"n": "text"}, None, InvalidFilterError),
    ({"n": lit("no number")}, None, InvalidFilterError),
    ({"s": None, "s.a": 1}, None, ValueError),
    ({"n": 1, "N": 2}, None, ValueError),
    ({"n": 1}, "nowhere = 1", UnknownColumnError),
    ({"n": "1 / (id - 30)"}, None, (InvalidDataError, InvalidFilterError)),
    ({"n": "CAST(text AS INT)"}, "text IS NOT NULL", InvalidDataError),
]
OPTIONS: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"partitions": "some"}, ValueError),
    ({"where": "id = 1", "partitions": "dynamic"}, ValueError),
    ({"where": "id = 1", "overwrite_schema": True}, ValueError),
    ({"merge_schema": True, "overwrite_schema": True}, ValueError),
    ({"partition_by": ["id"]}, ValueError),
    ({"where": "id >"}, InvalidFilterError),
    ({"where": "nowhere = 1"}, UnknownColumnError),
]


@each(
    ("properties", "operation", "error"),
    [
        *((VECTORS, delete(where=where), error) for where, error in CONDITIONS),
        *((VECTORS, update(set=given, where=where), error) for given, where, error in ASSIGNMENTS),
        *((FEED, update(set=given, where=where), error) for given, where, error in ASSIGNMENTS),
        *((VECTORS, overwrite(**options), error) for options, error in OPTIONS),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_written(
    tmp_path: Path, properties: Mapping[str, str], operation: Operation, error: Any
) -> None:
    table = ModelledTable.create(tmp_path, properties)
    before = table.files_on_disk()
    with pytest.raises(error):
        operation(table)
    assert table.files_on_disk() == before


@each("operation", [delete(where="id = 3"), update(set={"n": 1}), overwrite(), merge])
def test_rows_of_an_append_only_table_stay(tmp_path: Path, operation: Operation) -> None:
    table = ModelledTable.create(tmp_path, VECTORS | {"delta.appendOnly": "true"})
    before = table.files_on_disk()
    with pytest.raises(UnsupportedFeatureError, match="append-only"):
        operation(table)
    assert table.files_on_disk() == before


@each(
    ("first", "again", "ids"),
    [
        (delete(where="id = 3"), delete(where="id = 4"), set(range(60)) - {3}),
        (overwrite(0, 5), overwrite(5, 10), set(range(5))),
    ],
)
def test_the_work_of_an_application_is_done_once(
    tmp_path: Path, first: Operation, again: Operation, ids: set[int]
) -> None:
    table = ModelledTable.create(tmp_path, VECTORS)
    version = first(table, application=("job", 7)).version
    assert again(table, application=("job", 7)).version == version
    assert {row["id"] for row in table.read()} == ids


def delete_one(table: ModelledTable) -> None:
    table.delete("id = 4", lambda row: row["id"] == 4)


def update_one(table: ModelledTable) -> None:
    table.update({"n": 1}, "id = 4", lambda row: {"n": 1}, lambda row: row["id"] == 4)


@each(
    ("properties", "partition_by", "operation", "rival"),
    [
        *((kind, (), delete(where="id = 3"), delete_one) for kind in ({}, VECTORS, FEED)),
        *((kind, (), update(set={"n": 2}, where="id = 3"), update_one) for kind in ({}, VECTORS | FEED)),
        *((VECTORS, ("part",), overwrite(**how), delete_one) for how in ({}, {"where": "id < 30"})),
        (VECTORS, ("part",), overwrite(partitions="dynamic"), delete_one),
        (VECTORS, (), merge, delete_one),
    ],
)
def test_the_loser_of_a_conflict_leaves_nothing(
    tmp_path: Path,
    properties: Mapping[str, str],
    partition_by: tuple[str, ...],
    operation: Operation,
    rival: Callable[[ModelledTable], object],
) -> None:
    table = ModelledTable.create(tmp_path, properties, partition_by)
    before = table.files_on_disk()
    of_loser: set[str] = set()
    with_both: set[str] = set()

    def interfere() -> None:
        of_loser.update(table.files_on_disk() - before)
        rival(table)
        with_both.update(table.files_on_disk())

    with pytest.raises(CommitConflictError):
        operation(table, engine=engine_over(RivalStorage(interfere)))
    assert of_loser
    assert table.files_on_disk() == with_both - of_loser
    table.check()


SOME = {"where": "id % 10 = 3"}


@each(
    ("operation", "properties", "fatal", "after"),
    [
        (delete(**SOME), VECTORS, "deletion_vector_", 0),
        (delete(**SOME), {}, "part-", 0),
        (delete(**SOME), {}, "part-", 1),
        (delete(**SOME), FEED, "cdc-", 1),
        (update(set={"n": 1}, **SOME), VECTORS, "deletion_vector_", 0),
        (update(set={"n": 1}, **SOME), VECTORS, "part-", 1),
        (update(set={"n": 1}, **SOME), {}, "part-", 1),
        (update(set={"n": 1}, **SOME), FEED | VECTORS, "cdc-", 0),
        (overwrite(0, 20, where="id < 30"), VECTORS, "deletion_vector_", 0),
        (overwrite(0, 20), VECTORS, "part-", 1),
        (overwrite(0, 20, where="id < 30"), {}, "part-", 2),
        (overwrite(0, 20, partitions="dynamic"), {}, "part-", 1),
        (overwrite(0, 20, where="id < 30"), FEED, "cdc-", 1),
        (merge, VECTORS, "deletion_vector_", 0),
        (merge, FEED, "cdc-", 1),
    ],
)
def test_a_failure_in_the_middle_leaves_the_table_as_it_was(
    tmp_path: Path, operation: Operation, properties: Mapping[str, str], fatal: str, after: int
) -> None:
    table = ModelledTable.create(tmp_path, properties)
    before = table.files_on_disk()
    with pytest.raises(StorageError):
        operation(table, engine=engine_over(FailingStorage(fatal, after)))
    assert table.files_on_disk() == before
    table.check()
