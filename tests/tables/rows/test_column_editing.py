"""Files that are edited column by column: rows, statistics and errors as in the ordinary way, and other bytes kept."""

import pickle
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import WriterProperties, write_deltalake

import lakeport
from lakeport import lit, tables
from lakeport.engine import engine_over
from lakeport.engine.storage.storage import Storage
from lakeport.errors import ConstraintError, InvalidDataError, OutOfSpaceError
from lakeport.kernel.engine import OutputFile
from lakeport.kernel.schema import PrimitiveType, StructField, StructType
from lakeport.tables.operation import begin_unless_done, open_snapshot
from lakeport.tables.rows import column_editing
from lakeport.testing.counting import CountingStorage
from tests.engine.duckdb_engine import duckdb_engine
from tests.properties import FEED, MAPPED, TRACKING, VECTORS
from tests.tables.exact_statistics import check_statistics
from tests.tables.kept import kept_columns
from tests.tables.modelled import BY_ID, KINDS, ModelledTable, as_table, logged, some_rows


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Edit small files too."""
    monkeypatch.setattr(column_editing, "_SMALL_FILE", 0)
    monkeypatch.setattr(column_editing, "_SMALL_CHUNK", 0)


@pytest.mark.parametrize("properties", [{}, MAPPED, BY_ID], ids=["plain", "by name", "by id"])
@pytest.mark.parametrize("partition_by", [(), ("part",)], ids=["unpartitioned", "partitioned"])
def test_columns_that_are_not_set_keep_their_bytes(
    tmp_path: Path, properties: Mapping[str, str], partition_by: tuple[str, ...]
) -> None:
    table = ModelledTable.create(tmp_path, properties, partition_by)
    stored = 6 - len(partition_by)
    for assignments, change in (
        ({"n": "n + 100"}, lambda r: {"n": None if r["n"] is None else r["n"] + 100}),
        ({"text": "upper(text)"}, lambda r: {"text": r["text"] and r["text"].upper()}),
        ({"text": None}, lambda r: {"text": None}),
    ):
        table.update(assignments, "id % 2 = 0", change, lambda r: r["id"] % 2 == 0)
        assert {stored - 1} <= set(kept_columns(table.path)) <= {stored - 1, stored}  # some values do not change
        check_statistics(table.path)
    table.update({"s.a": "id", "n": 5}, None, lambda r: {"s": {"a": r["id"], "b": r["s"] and r["s"]["b"]}, "n": 5})
    assert set(kept_columns(table.path)) <= {stored - 3, stored - 2}  # the whole struct is written anew
    check_statistics(table.path)


@pytest.mark.parametrize("properties", KINDS.values(), ids=KINDS.keys())
def test_merges_set_columns(tmp_path: Path, properties: Mapping[str, str]) -> None:
    table = ModelledTable.create(tmp_path, properties, ())
    source = pa.table({"id": pa.array([3, 5, 30, 31, 100]), "n": pa.array([None, 1, 2, 3, 4], pa.int32())})
    result = (
        tables.merge(table.path, source, "target.id = source.id")
        .when_matched_update({"n": "source.n", "text": "target.text || '!'"}, "source.n > 2 OR source.n IS NULL")
        .when_matched_update({"n": "source.n"})
        .when_not_matched_insert({"id": "source.id"})
        .execute()
    )
    new = {row["id"]: row["n"] for row in source.to_pylist()}
    for row in table.rows:
        if row["id"] in new:
            row["n"] = new[row["id"]]
            if row["n"] is None or row["n"] > 2:
                row["text"] = row["text"] and row["text"] + "!"
    table.rows.append({"id": 100, "part": None, "n": None, "text": None, "s": None})
    table.check()
    assert (result.metrics["numTargetRowsUpdated"], result.metrics["numTargetRowsInserted"]) == (4, 1)
    if properties == {}:
        assert sorted(kept_columns(table.path)) == [0, 4, 5]  # one file has only null texts to update
        assert result.metrics["numTargetRowsCopied"] == 36
        check_statistics(table.path)


def test_clauses_that_set_other_columns_keep_those_that_they_do_not_set(tmp_path: Path) -> None:
    table = ModelledTable.create(tmp_path, {}, (), files=1)
    source = pa.table({"id": range(10, 30)})
    (
        tables.merge(table.path, source, "target.id = source.id")
        .when_matched_update({"n": -1, "s.a": 7}, "target.id < 20")
        .when_matched_update({"text": lit("new"), "s": None})
        .execute()
    )
    for row in table.rows[10:20]:
        row |= {"n": -1, "s": {"a": 7, "b": row["s"] and row["s"]["b"]}}
    for row in table.rows[20:30]:
        row |= {"text": "new", "s": None}
    table.check()
    assert kept_columns(table.path) == [2]
    check_statistics(table.path)


def test_columns_with_equal_new_values_keep_their_bytes(tmp_path: Path) -> None:
    table = ModelledTable.create(tmp_path, {}, (), files=1)
    source = as_table([row | {"n": -1} for row in some_rows(10, 20)])
    tables.merge(table.path, source, "target.id = source.id").when_matched_update_all().execute()
    table.rows = [row | ({"n": -1} if 10 <= row["id"] < 20 else {}) for row in table.rows]
    table.check()
    assert kept_columns(table.path) == [5]
    check_statistics(table.path)


@pytest.mark.parametrize(("limit", "kept"), [(240_000, 4), (60_000, 0)])
def test_row_groups_whose_new_values_exceed_a_share_of_the_memory_are_rewritten(
    tmp_path: Path, limit: int, kept: int
) -> None:
    """The source exceeds an eighth of both limits. The first row group has too few new values for either."""
    path = str(tmp_path / "table")
    data = pa.table({"id": range(3000), "n": range(3000), "kept": [i / 7 for i in range(3000)]})
    write_deltalake(path, data, writer_properties=WriterProperties(max_row_group_size=1500))
    source = pa.table({"id": range(1400, 4000), "n": range(2600)})
    merge = tables.merge(path, source, "target.id = source.id", memory_limit=limit)
    merge.when_matched_update({"n": "source.n"}).execute()
    rows = lakeport.scan(path).to_arrow().sort_by("id")
    assert rows.to_pydict() == {**data.to_pydict(), "n": [*range(1400), *range(1600)]}
    assert kept_columns(path) == [kept]
    check_statistics(path)


def test_row_groups_without_an_updated_row_keep_their_bytes(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    data = pa.table({"id": range(3000), "v": [i / 7 for i in range(3000)]})
    write_deltalake(path, data, writer_properties=WriterProperties(max_row_group_size=1000))
    tables.update(path, {"v": -1.0}, "id IN (1000, 1999)")
    assert kept_columns(path) == [5]
    assert lakeport.scan(path).where("v = -1").to_arrow()["id"].to_pylist() == [1000, 1999]
    check_statistics(path)


@pytest.mark.parametrize(
    ("properties", "partition_by", "column"),
    [(FEED, (), "n"), (TRACKING, (), "n"), (VECTORS, (), "n"), ({}, ("part",), "part")],
    ids=["feed", "row tracking", "deletion vectors", "partition column"],
)
def test_other_files_are_rewritten(
    tmp_path: Path, properties: Mapping[str, str], partition_by: tuple[str, ...], column: str
) -> None:
    table = ModelledTable.create(tmp_path, properties, partition_by)
    value = 7 if column == "n" else "other"
    table.update({column: lit(value)}, "id % 10 = 3", lambda r: {column: value}, lambda r: r["id"] % 10 == 3)
    assert set(kept_columns(table.path)) <= {0}


def test_files_with_deletion_vectors_lose_their_rows(tmp_path: Path) -> None:
    table = ModelledTable.create(tmp_path, VECTORS, (), files=1)
    table.delete("id < 5", lambda r: r["id"] < 5)
    tables.set_properties(table.path, {"delta.enableDeletionVectors": "false"})
    table.update({"n": 7}, "id % 10 = 7", lambda r: {"n": 7}, lambda r: r["id"] % 10 == 7)
    (add,) = logged(table.path, table.version, "add")
    assert pq.read_metadata(Path(table.path, add["path"])).num_rows == 55


@pytest.mark.parametrize("properties", [{}, MAPPED, BY_ID], ids=["plain", "by name", "by id"])
def test_columns_that_a_file_lacks_are_added(tmp_path: Path, properties: Mapping[str, str]) -> None:
    table = ModelledTable.create(tmp_path, properties, (), files=1)
    tables.add_columns(table.path, pa.schema([("more", pa.decimal128(10, 2))]))
    table.rows = [row | {"more": None} for row in table.rows]
    table.update({"more": "id"}, "id % 2 = 0", lambda r: {"more": Decimal(f"{r['id']}.00")}, lambda r: r["id"] % 2 == 0)
    assert kept_columns(table.path) == [6]
    check_statistics(table.path)


def test_widened_columns_are_written_with_their_type(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    data = pa.table({"id": range(9), "n": pa.array(range(9), pa.int32()), "text": ["x"] * 9})
    tables.create(path, data, properties={"delta.enableTypeWidening": "true"})
    tables.widen_column(path, "n", "long")
    tables.update(path, {"text": lit("y")}, "id = 1")
    tables.update(path, {"n": 1 << 40}, "id = 3")
    assert kept_columns(path) == [2]
    check_statistics(path)
    assert lakeport.scan(path).to_arrow().to_pydict() == {
        "id": list(range(9)),
        "n": [0, 1, 2, 1 << 40, 4, 5, 6, 7, 8],
        "text": ["x", "y", *["x"] * 7],
    }


def test_new_rows_are_checked(tmp_path: Path) -> None:
    table = ModelledTable.create(tmp_path, {"delta.constraints.small": "n IS NULL OR id + n < 1000"}, ())
    before = table.files_on_disk()
    with pytest.raises(ConstraintError, match=r"^the row with \(id = \d+, part = p \d, n = \d, text = text \d+, s ="):
        tables.update(table.path, {"n": 990}, "id >= 10 AND text IS NOT NULL")
    with pytest.raises(InvalidDataError, match=r"^the row with \(id = 1, part"):
        tables.update(table.path, {"n": "id / 4"}, "id = 1")
    assert table.files_on_disk() == before
    table.update({"n": 900}, "id < 9", lambda r: {"n": 900}, lambda r: r["id"] < 9)
    assert kept_columns(table.path) == [5]


def test_generated_columns_follow(tmp_path: Path) -> None:
    long = PrimitiveType("long")
    twice = StructField("twice", long, metadata={"delta.generationExpression": "id * 2"})
    schema = StructType((StructField("id", long), StructField("text", PrimitiveType("string")), twice))
    path = str(tmp_path / "table")
    tables.create(path, schema=schema)
    tables.append(path, pa.table({"id": range(10), "text": ["x"] * 10}))
    tables.update(path, {"id": "id + 100"}, "id < 2")
    assert kept_columns(path) == [1]
    assert lakeport.scan(path).to_arrow()["twice"].to_pylist() == [200, 202, *range(4, 20, 2)]
    with pytest.raises(ConstraintError, match="twice"):
        tables.update(path, {"twice": 7}, "id = 5")


def test_an_engine_that_cannot_edit_rewrites(tmp_path: Path) -> None:
    table = ModelledTable.create(tmp_path, {}, ())
    tables.update(table.path, {"n": 1}, "id = 3", engine=duckdb_engine())
    table.rows = [row | ({"n": 1} if row["id"] == 3 else {}) for row in table.rows]
    table.check()


class FullDisk(CountingStorage):
    """Fails to write the second half of a file."""

    def open_output(self, path: str) -> OutputFile:
        return _FullFile(super().open_output(path))


class _FullFile:
    def __init__(self, output: OutputFile) -> None:
        self._output, self._left = output, 3

    def write(self, data: bytes | memoryview) -> int:
        self._left -= 1
        if not self._left:
            raise OutOfSpaceError("the disk is full", path="")
        return self._output.write(data)

    def close(self) -> None:
        self._output.close()

    def abort(self) -> None:
        self._output.abort()


def test_a_full_disk_leaves_no_file(tmp_path: Path) -> None:
    table = ModelledTable.create(tmp_path, {}, ())
    before = table.files_on_disk()
    with pytest.raises(OutOfSpaceError):
        tables.update(table.path, {"n": 1}, engine=engine_over(FullDisk(Storage())))
    assert table.files_on_disk() == before
    table.check()


def test_one_column_of_a_wide_table(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    data = pa.table({f"c{i}": pa.array(range(i, i + 100)) for i in range(200)})
    tables.create(path, data)
    tables.update(path, {"c150": -1}, "c0 = 7")
    assert kept_columns(path) == [199]
    values: list[Any] = data["c150"].to_pylist()
    values[7] = -1
    assert lakeport.scan(path).to_arrow() == data.set_column(150, "c150", pa.array(values))


def test_plans_travel_to_tasks(tmp_path: Path) -> None:
    table = ModelledTable.create(tmp_path, {}, ())
    snapshot = open_snapshot(table.path, None, None)
    transaction = begin_unless_done(snapshot, "UPDATE")
    assert transaction is not None

    class Update:
        sets = frozenset({"n"})
        reads = frozenset({"id"})

    plan = column_editing.ColumnEditing.plan(snapshot, transaction.write_context(), Update())  # type: ignore[arg-type]
    assert plan is not None
    assert pickle.loads(pickle.dumps(plan)) == plan
