"""`create` and `append`: rows as they were given, read back by Lakeport and deltalake; nothing of what is refused."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

import lakeport
from lakeport import tables
from lakeport.engine import default_engine, engine_over
from lakeport.engine.storage.storage import Storage
from lakeport.errors import (
    CommitConflictError,
    CommitUnknownError,
    ConstraintError,
    InvalidDataError,
    LakeportError,
    StorageError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from lakeport.kernel.schema import PrimitiveType, StructField, StructType
from lakeport.testing.counting import CountingStorage
from tests.conftest import missing
from tests.rows import ids

Rows = list[dict[str, Any]]


def by_lakeport(target: Path | str) -> Rows:
    return lakeport.scan(str(target)).to_arrow().to_pylist()


def by_deltalake(target: Path | str) -> Rows:
    read = QueryBuilder().register("t", DeltaTable(target)).execute("SELECT * FROM t")
    return pa.table(read).to_pylist()


def data_files(target: Path) -> list[Path]:
    return sorted(target.rglob("*.parquet"))


# Rows as they were given


def every_type() -> pa.Table:
    """Each type that Delta has, with a null and with odd values."""
    point = pa.struct([("x", pa.int32()), ("tags", pa.list_(pa.string()))])
    return pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int64()),
            "byte": pa.array([-128, None, 127], pa.int8()),
            "short": pa.array([-(2**15), None, 2**15 - 1], pa.int16()),
            "int": pa.array([-(2**31), None, 2**31 - 1], pa.int32()),
            "float": pa.array([1.5, None, float("-inf")], pa.float32()),
            "double": pa.array([0.1, None, 5e-324], pa.float64()),
            "small": pa.array([Decimal("1.10"), None, Decimal("-9.99")], pa.decimal128(3, 2)),
            "large": pa.array([Decimal(10**37), None, Decimal(-1)], pa.decimal128(38, 0)),
            "flag": pa.array([True, None, False]),
            "text": pa.array(["", None, "ü\U0001f600\x00"], pa.string()),
            "raw": pa.array([b"", None, b"\xff\x00"], pa.binary()),
            "day": pa.array([date(1, 1, 1), None, date(9999, 12, 31)]),
            "at": pa.array(
                [datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), None, datetime(2026, 7, 1, tzinfo=UTC)],
                pa.timestamp("us", "UTC"),
            ),
            "local": pa.array(
                [datetime(1, 1, 1), None, datetime(9999, 12, 31, 23, 59, 59, 999999)], pa.timestamp("us")
            ),
            "point": pa.array([{"x": 1, "tags": ["a", None]}, None, {"x": None, "tags": None}], point),
            "points": pa.array([[{"x": 1, "tags": []}, None], None, []], pa.list_(point)),
            "counts": pa.array([[("k", 1), ("n", None)], None, []], pa.map_(pa.string(), pa.int64())),
        }
    )


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_every_type_is_read_as_it_was_given(tmp_path: Path, mode: str) -> None:
    tables.create(str(tmp_path), every_type(), properties={"delta.columnMapping.mode": mode})
    tables.append(str(tmp_path), every_type())
    expected = every_type().to_pylist() * 2
    assert sorted(by_lakeport(tmp_path), key=lambda row: row["id"]) == sorted(expected, key=lambda row: row["id"])
    assert lakeport.scan(str(tmp_path)).schema.equals(every_type().schema)
    theirs = by_deltalake(tmp_path)
    assert sorted(theirs, key=lambda row: row["id"]) == sorted(expected, key=lambda row: row["id"])


PARTITIONS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (
        pa.string(),
        [
            *["a", "a b", "50%", "%20", "x/y", "#?&=", "10:30", "São Paulo", "北京", "'q\"", "a\\b", "\n", "e\u0301"],
            *["__HIVE_DEFAULT_PARTITION__", "x" * 200, " ", "null", "A", "."],
        ],
    ),
    "long": (pa.int64(), [1, -(2**63), 2**63 - 1]),
    "int": (pa.int32(), [1, -(2**31)]),
    "short": (pa.int16(), [1, -(2**15)]),
    "byte": (pa.int8(), [1, -128]),
    "double": (pa.float64(), [1.5, float("inf"), float("-inf"), 1e300, 5e-324, 0.1]),
    "float": (pa.float32(), [1.5, 0.10000000149011612]),
    "flag": (pa.bool_(), [True, False]),
    "day": (pa.date32(), [date(2026, 1, 1), date(1, 1, 1), date(9999, 12, 31)]),
    "at": (
        pa.timestamp("us", "UTC"),
        [datetime(2026, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)],
    ),
    "local": (pa.timestamp("us"), [datetime(2026, 1, 1), datetime(2026, 1, 1, 1, 2, 3, 4)]),
    "price": (pa.decimal128(38, 10), [Decimal("1.5"), Decimal("-0.0000000001"), Decimal("9" * 28 + "." + "9" * 10)]),
    "raw": (pa.binary(), [b"abc", "ü".encode()]),
}


@pytest.mark.parametrize("mode", ["none", "name"])
@pytest.mark.parametrize("kind", PARTITIONS)
def test_partition_values_of_every_type_are_read_as_they_were_given(tmp_path: Path, kind: str, mode: str) -> None:
    data_type, given = PARTITIONS[kind]
    table = pa.table({"id": range(len(given) + 1), "p": pa.array([None, *given], data_type)})
    tables.create(str(tmp_path), table, partition_by=["p"], properties={"delta.columnMapping.mode": mode})
    expected = dict(enumerate(table["p"].to_pylist()))
    assert {row["id"]: row["p"] for row in by_lakeport(tmp_path)} == expected
    assert {row["id"]: row["p"] for row in by_deltalake(tmp_path)} == expected
    for number, value in expected.items():
        where = lakeport.col("p").is_null() if value is None else lakeport.col("p") == value
        assert [row["id"] for row in lakeport.scan(str(tmp_path)).where(where).to_arrow().to_pylist()] == [number]


def test_an_empty_text_is_read_as_null_where_it_is_a_partition_value(tmp_path: Path) -> None:
    tables.create(str(tmp_path), {"id": [1, 2], "p": ["", "a"], "q": ["", "b"]}, partition_by=["p"])
    rows = [{"id": 1, "p": None, "q": ""}, {"id": 2, "p": "a", "q": "b"}]
    assert sorted(by_lakeport(tmp_path), key=lambda row: row["id"]) == rows
    assert sorted(by_deltalake(tmp_path), key=lambda row: row["id"]) == rows


@pytest.mark.parametrize(
    "data",
    [
        {"id": [1, 2], "name": ["a", "b"]},
        [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}],
        pd.DataFrame({"id": [1, 2], "name": ["a", "b"]}),
        pl.DataFrame({"id": [1, 2], "name": ["a", "b"]}),
        pl.DataFrame({"id": [1, 2], "name": ["a", "b"]}, schema_overrides={"name": pl.Categorical, "id": pl.UInt8}),
        pa.table({"NAME": pa.array(["a", "b"]).dictionary_encode(), "Id": pa.array([1, 2], pa.uint64())}),
    ],
    ids=lambda data: type(data).__name__,
)
def test_data_of_other_libraries_is_appended(tmp_path: Path, data: Any) -> None:
    tables.create(str(tmp_path), schema=pa.schema([("id", pa.int64()), ("name", pa.string())]))
    result = tables.append(str(tmp_path), data)
    assert (result.version, result.metrics["numOutputRows"], result.metrics["numFiles"]) == (1, 2, 1)
    assert by_lakeport(tmp_path) == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


def test_a_duckdb_relation_is_appended(tmp_path: Path) -> None:
    tables.create(str(tmp_path), schema=pa.schema([("id", pa.int64()), ("name", pa.string())]))
    tables.append(str(tmp_path), duckdb.sql("SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS t(id, name)"))
    assert by_lakeport(tmp_path) == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


def test_times_of_other_precisions_and_zones_are_the_same_moments(tmp_path: Path) -> None:
    noon = 1_767_268_800
    tables.create(str(tmp_path), schema=pa.schema([("at", pa.timestamp("us", "UTC")), ("local", pa.timestamp("us"))]))
    for unit, factor in [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)]:
        moments = pa.array([noon * factor], pa.timestamp(unit, "America/New_York"))
        tables.append(str(tmp_path), {"at": moments, "local": pa.array([noon * factor], pa.timestamp(unit))})
    frame = pd.DataFrame({"at": pd.to_datetime([noon], unit="s", utc=True).tz_convert("Asia/Tokyo")})
    tables.append(str(tmp_path), frame)
    rows = by_lakeport(tmp_path)
    assert {row["at"] for row in rows} == {datetime(2026, 1, 1, 12, tzinfo=UTC)}
    assert {row["local"] for row in rows} == {datetime(2026, 1, 1, 12), None}


# Creating


def test_a_table_is_created_from_a_schema_alone(tmp_path: Path) -> None:
    result = tables.create(str(tmp_path), schema=pa.schema([("id", pa.int64())]), name="n", description="d")
    assert result.version == 0
    assert by_lakeport(tmp_path) == []
    [commit] = tables.history(str(tmp_path))
    assert commit.operation == "CREATE TABLE"
    theirs = DeltaTable(tmp_path)
    assert (theirs.metadata().name, theirs.metadata().description) == ("n", "d")


def test_rows_of_a_new_table_are_fitted_to_its_schema(tmp_path: Path) -> None:
    schema = StructType(
        (StructField("id", PrimitiveType("integer"), nullable=False), StructField("n", PrimitiveType("date")))
    )
    tables.create(str(tmp_path), {"id": [1]}, schema=schema)
    assert by_lakeport(tmp_path) == [{"id": 1, "n": None}]
    [commit] = tables.history(str(tmp_path))
    assert commit.operation == "CREATE TABLE AS SELECT"
    assert commit.info["operationMetrics"]["numOutputRows"] == "1"


def test_a_table_that_exists_is_not_created_again(tmp_path: Path) -> None:
    tables.create(str(tmp_path), {"id": [1]})
    with pytest.raises(ValueError, match="the table already exists, at version 0: append to it or overwrite it"):
        tables.create(str(tmp_path), {"id": [2]})
    assert ids(tmp_path) == [1]
    assert len(data_files(tmp_path)) == 1


def test_a_new_table_needs_columns(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a new table needs data or a schema"):
        tables.create(str(tmp_path))
    with pytest.raises(ValueError, match="has the type time32"):
        tables.create(str(tmp_path), schema=pa.schema([("at", pa.time32("s"))]))
    assert list(tmp_path.iterdir()) == []


def test_a_stream_is_created_and_appended_as_it_comes(tmp_path: Path) -> None:
    def stream(start: int) -> Iterator[pa.RecordBatch]:
        for number in range(start, start + 5):
            yield pa.record_batch({"id": [number]})

    tables.create(str(tmp_path), stream(0))
    tables.append(str(tmp_path), stream(5))
    assert ids(tmp_path) == list(range(10))


# Appending


def test_an_append_needs_a_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        tables.append(str(tmp_path / "nothing"), {"id": [1]})


def test_an_append_without_rows_makes_no_version(tmp_path: Path) -> None:
    tables.create(str(tmp_path), {"id": [1]})
    assert tables.append(str(tmp_path), pa.table({"id": pa.array([], pa.int64())})).version == 0


def test_an_append_tells_what_it_was(tmp_path: Path) -> None:
    tables.create(str(tmp_path), {"id": [1], "day": ["a"]}, partition_by=["day"])
    tables.append(str(tmp_path), {"id": [2], "day": ["b"]})
    commit = tables.history(str(tmp_path), 1)[0]
    assert commit.operation == "WRITE"
    assert commit.info["operationParameters"] == {"mode": "Append", "partitionBy": '["day"]'}
    assert commit.info["operationMetrics"]["numFiles"] == "1"


def test_columns_that_the_table_lacks_are_added_when_asked_for(tmp_path: Path) -> None:
    tables.create(str(tmp_path), {"id": [1]})
    with pytest.raises(InvalidDataError, match="the table has no column 'name'"):
        tables.append(str(tmp_path), {"id": [2], "name": ["b"]})
    tables.append(str(tmp_path), {"id": [2], "name": ["b"]}, merge_schema=True)
    expected = [{"id": 1, "name": None}, {"id": 2, "name": "b"}]
    assert sorted(by_lakeport(tmp_path), key=lambda row: row["id"]) == expected
    assert sorted(by_deltalake(tmp_path), key=lambda row: row["id"]) == expected
    with pytest.raises(InvalidDataError):
        tables.append(str(tmp_path), {"id": ["text"]}, merge_schema=True)


def test_work_of_an_application_is_done_once(tmp_path: Path) -> None:
    tables.create(str(tmp_path), {"id": [0]})
    assert tables.append(str(tmp_path), {"id": [1]}, application=("loader", 1)).version == 1
    assert tables.append(str(tmp_path), {"id": [1]}, application=("loader", 1)).version == 1
    assert tables.append(str(tmp_path), {"id": [9]}, application=("loader", 0)).version == 1
    assert tables.append(str(tmp_path), {"id": [2]}, application=("loader", 2)).version == 2
    assert tables.append(str(tmp_path), {"id": [3]}, application=("other", 1)).version == 3
    assert ids(tmp_path) == [0, 1, 2, 3]
    assert len(data_files(tmp_path)) == 4
    assert DeltaTable(tmp_path).transaction_version("loader") == 2


# What is refused


@pytest.mark.parametrize(
    ("data", "error", "column", "row"),
    [
        ({"id": ["x"], "n": [1]}, InvalidDataError, "id", None),
        ({"id": [1], "nothing": [1]}, InvalidDataError, "nothing", None),
        ({"id": [1, 2, 3], "n": [1, 2, 128]}, InvalidDataError, "n", 2),
        ({"n": [1]}, ConstraintError, "id", 0),
        ({"id": [1, None]}, ConstraintError, "id", 1),
        ({"id": [1, 2], "at": [{"x": 1}, {"x": None}]}, ConstraintError, "at.x", 1),
        ({"id": [1, 2], "at": [{"x": 1}, {"x": 2**40}]}, InvalidDataError, "at.x", 1),
        ({"id": [1, 2], "at": [{"x": 1, "z": 1}, None]}, InvalidDataError, "at.z", None),
        ({"id": [1, 2], "list": [[1, 2], [3, None]]}, ConstraintError, "list.element", 1),
        ({"id": [1, -2]}, ConstraintError, "id", 1),
    ],
)
def test_rows_that_do_not_fit_leave_nothing(
    tmp_path: Path, data: Any, error: type[InvalidDataError], column: str, row: int | None
) -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("n", pa.int8()),
            ("at", pa.struct([pa.field("x", pa.int32(), nullable=False)])),
            ("list", pa.list_(pa.field("element", pa.int64(), nullable=False))),
        ]
    )
    tables.create(str(tmp_path), schema=schema, properties={"delta.constraints.positive": "id > 0"})
    with pytest.raises(error) as caught:
        tables.append(str(tmp_path), data)
    assert type(caught.value) is error
    assert (caught.value.column, caught.value.row) == (column, row)
    assert data_files(tmp_path) == []
    assert lakeport.scan(str(tmp_path)).version == 0
    assert tables.append(str(tmp_path), {"id": [1]}).version == 1


def test_a_writer_feature_that_is_not_known_is_refused_by_name(tmp_path: Path) -> None:
    tables.create(str(tmp_path), {"id": [1]})
    log = tmp_path / "_delta_log"
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly", "timeMachine"]}
    (log / f"{1:020d}.json").write_text(json.dumps({"protocol": protocol}))
    with pytest.raises(UnsupportedFeatureError, match="the writer feature timeMachine") as caught:
        tables.append(str(tmp_path), {"id": [2]})
    assert caught.value.features == ("timeMachine",)
    assert ids(tmp_path) == [1]


class RacingStorage(CountingStorage):
    """A disk on which, at the first commit, another writer is faster, or the answer is lost."""

    def __init__(self, target: Path, then: str) -> None:
        super().__init__(Storage())
        self._target, self._then = target, then

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        then, self._then = self._then, ""
        if then == "conflict":
            tables.set_properties(str(self._target), {"user.changed": "yes"})
        if then == "unknown":
            super().write(path, data, overwrite=overwrite)
            self.lost = True
            raise StorageError("the connection was lost", path=path)
        super().write(path, data, overwrite=overwrite)

    lost = False

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        if self.lost:
            raise StorageError("the connection was lost", path=path)
        return super().read(path, start, length)


def test_the_files_of_an_append_that_conflicts_are_removed(tmp_path: Path) -> None:
    tables.create(str(tmp_path), {"id": [1]})
    with pytest.raises(CommitConflictError, match="it changes the table's schema or properties"):
        tables.append(str(tmp_path), {"id": [2]}, engine=engine_over(RacingStorage(tmp_path, "conflict")))
    assert len(data_files(tmp_path)) == 1
    assert tables.append(str(tmp_path), {"id": [2]}).version == 2


def test_the_files_of_an_append_that_may_have_landed_stay(tmp_path: Path) -> None:
    tables.create(str(tmp_path), {"id": [1]})
    with pytest.raises(CommitUnknownError, match="check the table's history before repeating"):
        tables.append(str(tmp_path), {"id": [2]}, engine=engine_over(RacingStorage(tmp_path, "unknown")))
    assert ids(tmp_path) == [1, 2]


# A full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of two megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0:
        missing("only root can mount a small disk")
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], capture_output=True, text=True)
    if mount.returncode:
        missing(f"a small disk cannot be mounted: {mount.stderr}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize("partition_by", [[], ["p"]])
def test_a_full_disk_leaves_the_table_as_it_was(small_disk: Path, partition_by: list[str]) -> None:
    target = small_disk / "table"
    tables.create(str(target), {"id": [1], "p": [1]}, partition_by=partition_by)
    before = {path for path in small_disk.rglob("*") if path.is_file()}
    noise = os.urandom(8 << 20)
    large = pa.table({"id": pa.Array.from_buffers(pa.int64(), 1 << 20, [None, pa.py_buffer(noise)])})
    large = large.append_column("p", pa.array([n % 3 for n in range(1 << 20)]))
    with pytest.raises(StorageError, match="the disk is full: free some space there"):
        tables.append(str(target), large)
    assert {path for path in small_disk.rglob("*") if path.is_file()} == before
    assert ids(target) == [1]
    assert tables.append(str(target), {"id": [2], "p": [1]}).version == 1
    assert ids(target) == [1, 2]


def test_a_disk_that_is_full_at_the_commit_leaves_the_table_as_it_was(small_disk: Path) -> None:
    target = small_disk / "table"
    tables.create(str(target), {"id": [1]})
    before = {path for path in small_disk.rglob("*") if path.is_file()}
    filler = small_disk / "filler"
    with filler.open("wb") as file:
        room = os.statvfs(small_disk)
        file.write(b"x" * (room.f_bavail * room.f_frsize))
    with pytest.raises(LakeportError, match="the disk is full: free some space there"):
        tables.append(str(target), {"id": [2]})
    filler.unlink()
    assert {path for path in small_disk.rglob("*") if path.is_file()} == before
    assert ids(target) == [1]
    assert tables.append(str(target), {"id": [2]}).version == 1


def test_a_table_is_appended_with_an_engine_of_ones_own(tmp_path: Path) -> None:
    engine = default_engine()
    tables.create(str(tmp_path), {"id": [1]}, engine=engine)
    tables.append(str(tmp_path), {"id": [2]}, engine=engine)
    assert ids(tmp_path) == [1, 2]


# What people give wrong


@pytest.mark.parametrize(
    "application",
    [("x", "1"), ("x", 1.5), ("x", True), ("x", np.True_), ("x", 2**63), ("x", -1), ("x", None), ("", 1), (5, 1), "x"],
    ids=str,
)
def test_an_application_is_a_name_and_a_number(tmp_path: Path, application: Any) -> None:
    target = str(tmp_path)
    tables.create(target, {"id": [1]})
    operations: list[Callable[[], Any]] = [
        lambda: tables.append(target, {"id": [2]}, application=application),
        lambda: tables.overwrite(target, {"id": [2]}, application=application),
        lambda: tables.delete(target, application=application),
        lambda: tables.update(target, {"id": "2"}, application=application),
        lambda: tables.merge(target, {"id": [1]}, "true", application=application).when_matched_delete().execute(),
    ]
    for operation in operations:
        with pytest.raises(ValueError, match="an application must be a name and a number"):
            operation()
    assert (ids(target), len(data_files(tmp_path))) == ([1], 1)


def test_the_number_of_an_application_may_be_numpys(tmp_path: Path) -> None:
    tables.create(str(tmp_path), {"id": [1]})
    numbers: list[Any] = [np.int64(3), 3, 2**63 - 1]
    for number in numbers:
        tables.append(str(tmp_path), {"id": [2]}, application=("x", number))
    assert ids(tmp_path) == [1, 2, 2]
    assert DeltaTable(tmp_path).transaction_version("x") == 2**63 - 1


@pytest.mark.parametrize("target", [None, "", " ", 5, b"t"])
def test_a_table_has_a_place(target: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    operations: list[Callable[[], Any]] = [
        lambda: tables.create(target, {"id": [1]}),
        lambda: tables.append(target, {"id": [1]}),
        lambda: tables.merge(target, {"id": [1]}, "true").when_matched_delete().execute(),
        lambda: tables.restore(target, version=0),
        lambda: lakeport.scan(target),
    ]
    for operation in operations:
        with pytest.raises(ValueError, match="is not a table location"):
            operation()
    assert list(tmp_path.iterdir()) == []


def test_a_place_may_be_a_path_object(tmp_path: Path) -> None:
    tables.create(tmp_path / "t", {"id": [1]})  # type: ignore[arg-type]
    assert lakeport.scan(tmp_path / "t").count() == 1  # type: ignore[arg-type]


def test_no_rows_are_no_version(tmp_path: Path) -> None:
    tables.create(str(tmp_path), {"id": [1]}, partition_by=())
    assert tables.append(str(tmp_path), []).version == 0
    assert tables.overwrite(str(tmp_path), [], where="id = 2").version == 0
    merge = tables.merge(str(tmp_path), [], "target.id = source.id").when_not_matched_insert_all()
    assert merge.execute().version == 0
    tables.create(str(tmp_path / "empty"), [], schema="id long")
    assert by_lakeport(tmp_path / "empty") == []
    assert tables.overwrite(str(tmp_path), []).version == 1
    assert ids(tmp_path) == []


def test_one_partition_column_need_not_be_in_a_list(tmp_path: Path) -> None:
    tables.create(str(tmp_path), {"id": [1], "day": ["a"]}, partition_by="day")
    assert lakeport.scan(str(tmp_path)).snapshot.partition_columns == ("day",)
