"""The building blocks of row-level changes, and what comes of many of them one after the other."""

import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import lakeport
from lakeport import tables
from lakeport.errors import InvalidDataError, UnknownColumnError
from lakeport.kernel.engine import Engine
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.schema import StructType
from lakeport.kernel.transaction import Transaction
from lakeport.tables.operation import begin_unless_done, open_snapshot
from lakeport.tables.rows.changes import ChangeCounts, FileChange, RowChanges
from lakeport.tables.rows.execution import execute
from lakeport.tables.rows.output import Inserted, Updated, split_rows
from lakeport.tables.rows.search import find_rows, parse_condition
from tests.properties import FEED, TRACKING, VECTORS
from tests.tables.modelled import KINDS, SCHEMA, ModelledTable, Row, some_rows


def positions(*values: int) -> npt.NDArray[np.uint64]:
    return np.array(values, dtype=np.uint64)


def file_of(records: int | None) -> ScanFile:
    return ScanFile(path="/t/f", size=1, stats=None if records is None else f'{{"numRecords":{records}}}')


@pytest.mark.parametrize(
    ("change", "whole"),
    [
        (FileChange(file_of(3), deleted=None), True),
        (FileChange(file_of(3), updated=None), True),
        (FileChange(file_of(3), deleted=positions(0, 2)), False),
        (FileChange(file_of(3), deleted=positions(0, 2), updated=positions(1)), True),
        (FileChange(file_of(3), deleted=positions(2), updated=None), True),
        (FileChange(file_of(None), deleted=positions(0, 1, 2)), False),
    ],
)
def test_a_file_is_gone_if_it_keeps_no_row(change: FileChange, whole: bool) -> None:
    assert change.is_whole is whole


def test_the_rows_that_go_are_in_order() -> None:
    change = FileChange(file_of(9), deleted=positions(1, 7), updated=positions(0, 3))
    assert change.gone.tolist() == [0, 1, 3, 7]


def test_rows_are_split_by_their_positions() -> None:
    rows = pa.record_batch({"v": ["a", "b", "c", "d"], "__lakeport_row_index": pa.array([10, 11, 15, 20])})
    values = [
        tuple(part["v"].to_pylist() for part in split_rows(rows, where)) for where in (positions(11, 12, 20), None)
    ]
    assert values == [(["b", "d"], ["a", "c"]), (["a", "b", "c", "d"], [])]
    assert [part.num_rows for part in split_rows(rows, positions())] == [0, 4]


def transaction_on(path: str) -> Transaction:
    transaction = begin_unless_done(open_snapshot(path, None, None), "WRITE")
    assert transaction is not None
    return transaction


class SetText:
    sets = frozenset({"text"})
    reads: frozenset[str] = frozenset()

    def open(self, engine: Engine, columns: StructType) -> Callable[[pa.RecordBatch], Iterator[Updated]]:
        return self.updated

    def updated(self, rows: pa.RecordBatch) -> Iterator[Updated]:
        index = rows.schema.get_field_index("text")
        yield Updated(rows, rows.set_column(index, "text", pa.array(["updated"] * rows.num_rows)))


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("feed", [True, False])
def test_rows_of_one_file_are_deleted_updated_and_inserted_at_once(tmp_path: Path, vectors: bool, feed: bool) -> None:
    properties = TRACKING | (VECTORS if vectors else {}) | (FEED if feed else {})
    table = ModelledTable.create(tmp_path, properties, (), files=2)
    transaction = transaction_on(table.path)
    ((file, found),) = find_rows(transaction, parse_condition("id IN (1, 2, 3)", 0))
    assert found is not None
    assert found.tolist() == [1, 2, 3]
    seen: list[ChangeCounts] = []

    def metrics(counts: ChangeCounts) -> dict[str, int]:
        seen.append(counts)
        return counts.metrics

    change = FileChange(file, deleted=positions(1), updated=positions(2, 3), update=SetText())
    inserted = Inserted(pa.RecordBatch.from_pylist([{"id": 100}]))
    result = execute(transaction, RowChanges([change], [inserted], metrics=metrics))
    (counts,) = seen
    assert (counts.deleted_rows, counts.updated_rows, counts.inserted_rows) == (1, 2, 1)
    assert counts.copied_rows == (0 if vectors else 27)
    assert (counts.removed_files, counts.vectors_added) == ((0, 1) if vectors else (1, 0))
    assert counts.change_files == (1 if feed else 0)
    gone, two, three = table.rows[1:4]
    new: Row = dict.fromkeys(SCHEMA.names) | {"id": 100}
    after = [two | {"text": "updated"}, three | {"text": "updated"}]
    table.rows = [table.rows[0], *table.rows[4:], *after, new]
    table.check(
        result.version,
        {"delete": [gone], "update_preimage": [two, three], "update_postimage": after, "insert": [new]},
    )
    versions = table.row_versions()
    assert {i for i, version in versions.items() if version == result.version} == {2, 3, 100}


@pytest.mark.parametrize("properties", [FEED, FEED | VECTORS], ids=["plain", "vectors"])
def test_the_feed_has_the_rows_of_files_that_go_whole_beside_updates(
    tmp_path: Path, properties: Mapping[str, str]
) -> None:
    table = ModelledTable.create(tmp_path, properties, (), files=2)
    transaction = transaction_on(table.path)
    ((first, _),) = find_rows(transaction, parse_condition("id = 1", 0))
    ((second, _),) = find_rows(transaction, parse_condition("id = 31", 0))
    updated = FileChange(second, updated=positions(1), update=SetText())
    result = execute(transaction, RowChanges([FileChange(first, deleted=None), updated]))
    gone, stays, before, others = table.rows[:30], table.rows[30], table.rows[31], table.rows[32:]
    after = before | {"text": "updated"}
    table.rows = [stays, *others, after]
    table.check(result.version, {"delete": gone, "update_preimage": [before], "update_postimage": [after]})


def test_changes_that_fail_leave_nothing_behind(tmp_path: Path) -> None:
    table = ModelledTable.create(tmp_path, VECTORS | FEED)
    before = table.files_on_disk()
    transaction = transaction_on(table.path)
    matches = find_rows(transaction, parse_condition("id % 2 = 0", 0))

    def fail(counts: ChangeCounts) -> dict[str, int]:
        assert counts.vectors_added > 0
        assert table.files_on_disk() > before
        raise KeyboardInterrupt

    changes = RowChanges(
        (FileChange(file, deleted=found) for file, found in matches),
        [Inserted(pa.RecordBatch.from_pylist(some_rows(100, 120), SCHEMA))],
        metrics=fail,
    )
    with pytest.raises(KeyboardInterrupt):
        execute(transaction, changes)
    assert table.files_on_disk() == before


@pytest.mark.parametrize("properties", [TRACKING, TRACKING | VECTORS, VECTORS], ids=["plain", "vectors", "untracked"])
@pytest.mark.parametrize("name", ["_row_id", "_row_commit_version"])
def test_new_rows_bring_no_row_ids(tmp_path: Path, properties: Mapping[str, str], name: str) -> None:
    table = ModelledTable.create(tmp_path, properties, ())
    before = table.files_on_disk()
    given = pa.table({"id": [100], name: [7]})
    merge = tables.merge(table.path, given, "target.id = source.id")
    with pytest.raises(InvalidDataError, match=f"the table has no column '{name}'"):
        tables.append(table.path, given)
    with pytest.raises(InvalidDataError, match=f"the table has no column '{name}'"):
        tables.overwrite(table.path, given)
    with pytest.raises(InvalidDataError, match=f"the table has no column '{name}'"):
        tables.overwrite(table.path, given, where="id = 100")
    with pytest.raises(UnknownColumnError, match=name):
        merge.when_not_matched_insert({"id": "source.id", name: f"source.{name}"}).execute()
    with pytest.raises(InvalidDataError, match=f"the table has no column '{name}'"):
        insert_beside_an_update(table.path, given.to_batches()[0])
    assert table.files_on_disk() == before


def insert_beside_an_update(path: str, rows: pa.RecordBatch) -> None:
    transaction = transaction_on(path)
    files = [FileChange(file, updated=None, update=SetText()) for file, _ in find_rows(transaction, None)]
    execute(transaction, RowChanges(files, [Inserted(rows)]))


def test_a_file_from_which_nothing_goes_is_left_alone(tmp_path: Path) -> None:
    table = ModelledTable.create(tmp_path, VECTORS, ())
    version = table.version
    transaction = transaction_on(table.path)
    files = [FileChange(file) for file, _ in find_rows(transaction, None)]
    result = execute(transaction, RowChanges(files))
    assert result.metrics["numRemovedFiles"] == 0
    assert result.version == version


@pytest.mark.parametrize("properties", KINDS.values(), ids=KINDS.keys())
@pytest.mark.parametrize("seed", range(2))
def test_many_changes_one_after_the_other_are_what_the_model_says(
    tmp_path: Path, properties: Mapping[str, str], seed: int
) -> None:
    rng = random.Random(seed)
    table = ModelledTable.create(tmp_path, properties, rng.choice([(), ("part",)]))
    next_id = 1000
    for _ in range(8):
        divisor = rng.randint(2, 7)
        remainder = rng.randrange(divisor)

        def holds(row: dict[str, Any], divisor: int = divisor, remainder: int = remainder) -> bool:
            return bool(row["id"] % divisor == remainder)

        where = f"id % {divisor} = {remainder}"
        match rng.choice(["delete", "update", "move", "overwrite"]):
            case "delete":
                table.delete(where, holds)
            case "update":
                table.update({"n": divisor, "s.b": "text"}, where, lambda row: _updated_row(row, divisor), holds)  # noqa: B023
            case "move":
                table.update({"part": "concat('to ', part)"}, where, _moved, holds)
            case "overwrite":
                new = [row for row in some_rows(next_id, next_id + 12) if holds(row)]
                table.overwrite(new, holds, where=where)
                next_id += 100
    assert lakeport.scan(table.path).version > 3
    tables.delete(table.path)
    assert table.read() == []


def _updated_row(row: Row, n: int) -> Row:
    return {"n": n, "s": {"a": row["s"] and row["s"]["a"], "b": row["text"]}}


def _moved(row: Row) -> Row:
    return {"part": row["part"] and f"to {row['part']}"}
