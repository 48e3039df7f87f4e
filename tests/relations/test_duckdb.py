"""Frames in DuckDB: what it reads itself, what comes as Arrow batches, and what holds for both."""

import gc
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeport
from lakeport import tables
from lakeport.engine import default_engine, memory_engine
from lakeport.errors import MissingFileError
from lakeport.relations.arrow_dataset import FrameDataset
from lakeport.relations.duckdb_compatibility import DuckDBMismatchError
from lakeport.relations.duckdb_view import view_text
from lakeport.testing import TableBuilder
from lakeport.testing.builder import struct
from tests.properties import FEED, TRACKING

NAN = float("nan")


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def why_not(frame: lakeport.Frame | lakeport.Changes) -> str:
    with pytest.raises(DuckDBMismatchError) as caught:
        view_text(frame)
    return str(caught.value)


def test_a_relation_reads_when_it_runs_and_stays_at_its_version(root: str) -> None:
    tables.create(root, {"id": [1, 2, 3]})
    relation = lakeport.scan(root).to_duckdb()
    tables.append(root, {"id": [4]})
    assert relation.aggregate("sum(id)").fetchall() == [(6,)]
    for file in Path(root).glob("*.parquet"):
        file.unlink()
    with pytest.raises(duckdb.Error, match="parquet"):
        relation.fetchall()


def test_a_relation_outlives_the_frame_and_the_connection(root: str) -> None:
    tables.create(root, {"id": [1, 2, 3]}, properties=FEED)
    relations = [lakeport.scan(root).to_duckdb(), lakeport.scan(root).changes(0).to_duckdb()]
    gc.collect()
    assert [relation.aggregate("sum(id)").fetchall() for relation in relations] == [[(6,)], [(6,)]]


def test_a_limit_comes_before_the_filter_of_a_query(root: str) -> None:
    tables.create(root, {"id": list(range(10))}, properties=TRACKING)
    frame = lakeport.scan(root).limit(4)
    for limited in (frame, frame.with_row_tracking()):
        assert limited.to_duckdb().filter("id >= 2").count("*").fetchall() == [(2,)]
    connection = duckdb.connect()
    assert connection.from_arrow(FrameDataset(frame)).filter("id >= 2").count("*").fetchall() == [(2,)]


def test_rows_with_ids_and_changes_come_as_batches(root: str) -> None:
    tables.create(root, {"id": [7, 8]}, properties=TRACKING | FEED)
    frame = lakeport.scan(root)
    assert why_not(frame.with_row_tracking()) == "row ids were requested"
    assert frame.with_row_tracking().to_duckdb().filter("_row_id = 1").project("id").fetchall() == [(8,)]
    assert why_not(frame.changes(0)) == "changes were requested"
    assert frame.changes(0).to_duckdb().filter("_change_type = 'insert'").count("*").fetchall() == [(2,)]


def test_an_engine_of_the_user_reads_the_files() -> None:
    engine = memory_engine()
    TableBuilder(engine, "/table", struct(id="long")).create()
    frame = lakeport.scan("/table", engine=engine)
    assert why_not(frame) == "the engine is not the default one"
    assert frame.to_duckdb().fetchall() == []


def test_part_of_a_struct_is_only_that_part(root: str) -> None:
    tables.create(root, {"s": [{"a": 1, "b": 2}, {"a": 3, "b": 4}]})
    part = lakeport.scan(root).select("s.b")
    assert part.to_duckdb().filter("s.b > 2").fetchall() == [({"b": 4},)]
    assert part.where("s.a = 1").to_duckdb().fetchall() == [({"b": 2},)]


def test_nan_is_the_greatest_number_of_duckdb_although_statistics_leave_it_out(root: str) -> None:
    tables.create(root, {"x": [0.5, NAN, 1.5], "s": [{"x": NAN}, {"x": 1.0}, None]})
    frame = lakeport.scan(root)
    assert frame.select("x").to_duckdb().filter("x > 100").count("*").fetchall() == [(1,)]
    connection = duckdb.connect(config={"enable_external_access": False})  # gets batches
    for relation in (frame.to_duckdb(), frame.to_duckdb(connection)):
        assert relation.filter("s.x > 100").count("*").fetchall() == [(1,)]
        assert relation.filter("x > 100").count("*").fetchall() == [(1,)]
    assert frame.where("x > 100").to_duckdb().fetchall() == []
    assert why_not(frame.select("x").where("x > 1")) == "DuckDB may compare these values differently"


@pytest.mark.parametrize("condition", ["s = 'a'", "s IN ('a', 'c')", "s < 'b'"])
def test_a_filter_compares_bytes_whatever_the_collation_of_the_connection_is(root: str, condition: str) -> None:
    tables.create(root, {"s": ["a", "A", "b", "B", None]})
    connection = duckdb.connect()
    connection.execute("SET default_collation = 'nocase'")
    frame = lakeport.scan(root).where(condition)
    assert sorted(frame.to_duckdb(connection).fetchall()) == sorted((s,) for s in frame.to_arrow()["s"].to_pylist())


def test_bytes_stay_bytes_whatever_the_settings_of_the_connection_are(root: str) -> None:
    tables.create(root, {"b": [rb"\x41", b"\xff"]})
    connection = duckdb.connect()
    connection.execute("SET binary_as_string = true")
    assert lakeport.scan(root).to_duckdb(connection).fetchall() == [(rb"\x41",), (b"\xff",)]


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_one_value_beside_nulls_is_none_of_them(root: str, kind: pa.DataType) -> None:
    """Without a dictionary, which other writers give up where it does not pay."""
    tables.create(root, pa.table({"s": pa.array([None, "a", "a", None], kind)}))
    for file in Path(root).glob("*.parquet"):
        pq.write_table(pq.read_table(file), file, use_dictionary=False)
    rows = lakeport.scan(root)
    assert rows.to_duckdb().filter("s IS NULL").count("*").fetchall() == [(2,)]
    assert rows.where("s IS NULL").to_duckdb().count("*").fetchall() == [(2,)]


def test_one_text_beside_nulls_in_a_struct_is_no_null(root: str) -> None:
    tables.create(root, {"t": [{"u": None}, {"u": "a"}]})
    for file in Path(root).glob("*.parquet"):
        pq.write_table(pq.read_table(file), file, use_dictionary=False)
    assert lakeport.scan(root).to_duckdb().filter("t.u IS NULL").count("*").fetchall() == [(1,)]


def test_columns_may_have_the_names_of_virtual_ones(root: str) -> None:
    rows = {"file_index": [5, 6], "file_row_number": [7, 8], "filename": ["a", "b"], "C0": ["x", "x"]}
    tables.create(root, rows, partition_by=["C0"], properties={"delta.enableDeletionVectors": "true"})
    tables.delete(root, "file_index = 5")
    frame = lakeport.scan(root)
    assert "file_row_number" in view_text(frame)
    assert frame.to_duckdb().fetchall() == [(6, 8, "b", "x")]


def test_files_that_have_the_columns_of_the_table_are_read_as_they_are(root: str) -> None:
    tables.create(root, {"id": [1], "at": [datetime(2026, 1, 1, tzinfo=UTC)]})
    tables.append(root, {"id": [2], "at": [None]})
    assert "schema=" not in view_text(lakeport.scan(root))
    tables.append(root, {"id": [3], "at": [None], "new": ["x"]}, merge_schema=True)
    evolved = lakeport.scan(root)
    assert "schema=" in view_text(evolved)
    rows = [(1, datetime(2026, 1, 1, tzinfo=UTC), None), (2, None, None), (3, None, "x")]
    assert evolved.to_duckdb().order("id").fetchall() == rows


def test_files_with_the_same_columns_in_other_places_are_read_by_name(root: str) -> None:
    tables.create(root, pa.table({"a": ["a1"], "b": ["b1"]}))
    tables.append(root, pa.table({"a": ["a2"], "b": ["b2"]}))
    file = max(Path(root).glob("*.parquet"))
    pq.write_table(pq.read_table(file).select(["b", "a"]), file)
    assert sorted(lakeport.scan(root).to_duckdb().fetchall()) == [("a1", "b1"), ("a2", "b2")]


def test_text_marked_as_json_is_text(root: str) -> None:
    tables.create(root, {"s": ["text"]})
    (file,) = Path(root).glob("*.parquet")
    duckdb.sql("SELECT '[1]'::JSON AS s").write_parquet(str(file))
    relation = lakeport.scan(root).to_duckdb()
    assert "schema=" not in view_text(lakeport.scan(root))
    assert relation.types == ["VARCHAR"]
    assert relation.to_arrow_table() == lakeport.scan(root).to_arrow()


def test_partitions_are_read_from_files_with_the_names_of_virtual_columns(root: str) -> None:
    rows = {"file_index": [5, 6], "p": ["x", "y"]}
    tables.create(root, rows, partition_by=["p"], properties={"delta.enableDeletionVectors": "true"})
    tables.delete(root, "file_index = 5")
    assert lakeport.scan(root).select("p").to_duckdb().fetchall() == [("y",)]


@pytest.mark.parametrize("folder", ["it's", "100 %", "ü#?*[a]", "{x}"])
def test_paths_have_no_patterns(tmp_path: Path, folder: str) -> None:
    root = str(tmp_path / folder)
    tables.create(root, {"id": [1, 2]})
    assert lakeport.scan(root).to_duckdb().fetchall() == [(1,), (2,)]


@pytest.mark.parametrize(
    ("name", "stored"),
    [("long", pa.array([1.5])), ("long", pa.array(["1"])), ("integer", pa.array([1])), ("string", pa.array([b"ab"]))],
)
def test_types_that_delta_does_not_widen_are_not_cast(root: str, name: str, stored: pa.Array) -> None:
    table = TableBuilder(default_engine(), root, struct(id=name))
    table.create(table.add(pa.table({"id": stored}), stats=None))
    frame = lakeport.scan(root)
    assert "is stored as" in why_not(frame)
    if name == "long":
        with pytest.raises(duckdb.Error, match="cannot be read as int64"):
            frame.to_duckdb().fetchall()
    else:
        assert frame.to_duckdb().to_arrow_table().to_pylist() == frame.to_arrow().to_pylist()


def test_a_file_that_is_gone_is_told_as_by_any_reader(root: str) -> None:
    tables.create(root, {"id": [1]})
    next(Path(root).glob("*.parquet")).unlink()
    relation = lakeport.scan(root).to_duckdb()
    with pytest.raises(duckdb.Error, match="it may have been vacuumed"):
        relation.fetchall()
    with pytest.raises(MissingFileError):
        lakeport.scan(root).to_arrow()


def test_a_connection_without_access_to_files_gets_batches(root: str) -> None:
    tables.create(root, {"id": [1, 2]})
    connection = duckdb.connect(config={"enable_external_access": False})
    assert lakeport.scan(root).to_duckdb(connection).fetchall() == [(1,), (2,)]


def test_an_old_duckdb_gets_batches(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tables.create(root, {"id": [1, 2]})
    monkeypatch.setattr(duckdb, "__version__", "1.2.2")
    relation = lakeport.scan(root).to_duckdb()
    assert "ARROW" in str(relation.explain()).upper()
    assert relation.fetchall() == [(1,), (2,)]
    monkeypatch.undo()
    assert "PARQUET" in str(lakeport.scan(root).to_duckdb().explain()).upper()


def test_deleted_rows_are_skipped_whether_a_file_has_few_or_many(root: str) -> None:
    """Vectors of one end of a file or both, in every second file."""
    ranges = [range(first, first + 1000) for first in range(0, 6000, 1000)]
    tables.create(root, {"id": ranges[0]}, properties={"delta.enableDeletionVectors": "true"})
    for ids in ranges[1:]:
        tables.append(root, {"id": ids})
    tables.delete(root, "id IN (0, 7, 8, 2999, 4000, 4999) OR id BETWEEN 2100 AND 2800")
    frame = lakeport.scan(root)
    assert all(form in view_text(frame) for form in ("get_bit", "NOT IN"))
    assert sorted(frame.to_duckdb().fetchall()) == sorted((row,) for row in frame.to_arrow()["id"].to_pylist())
    assert frame.to_duckdb().count("*").fetchall() == [(6000 - 6 - 701,)]
