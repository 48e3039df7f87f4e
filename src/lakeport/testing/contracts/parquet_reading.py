"""The contract of a `ParquetHandler` that reads."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.errors import CorruptTableError, MissingFileError
from lakeport.kernel.engine import AS_STORED, FIELD_ID, ROW_INDEX, Engine, FileSplit, FileStatus
from lakeport.kernel.expressions import Expression, col
from lakeport.kernel.schema import VARIANT_METADATA
from lakeport.testing.builder import parquet_bytes
from lakeport.testing.contracts.contract import Contract, check_is_missing


def by_id(field: pa.Field, number: int) -> pa.Field:
    return field.with_metadata({FIELD_ID: str(number).encode()})


class ParquetReadingContract(Contract):
    """Parquet files become Arrow as `ParquetHandler` specifies."""

    def parquet(self, engine: Engine, path: str, table: pa.Table, row_group_size: int | None = None) -> FileStatus:
        return self.write(engine, path, parquet_bytes(table, row_group_size))

    def read_parquet(
        self, engine: Engine, files: Sequence[FileSplit], schema: pa.Schema, **options: Any
    ) -> list[pa.RecordBatch]:
        return list(engine.parquet.read_parquet_files(files, schema, **options))

    def column(self, engine: Engine, file: FileStatus, field: pa.Field, **options: Any) -> list[Any]:
        batches = self.read_parquet(engine, [FileSplit(file)], pa.schema([field]), **options)
        return [value for batch in batches for value in batch.column(0).to_pylist()]

    def test_parquet_rows_come_in_the_order_of_the_files_given(self, engine: Engine, root: str) -> None:
        numbers = {i: list(range(i * 10_000, i * 10_000 + 5000)) for i in (3, 1, 2)}
        files = [self.parquet(engine, f"{root}/{i}", pa.table({"n": n}), 700) for i, n in numbers.items()]
        batches = self.read_parquet(
            engine, [FileSplit(f) for f in files], pa.schema([("n", pa.int64())]), batch_size=999
        )
        assert [v for b in batches for v in b.column(0).to_pylist()] == [n for i in (3, 1, 2) for n in numbers[i]]
        assert len({(b.column(0)[0].as_py() // 10_000, b.column(0)[-1].as_py() // 10_000) for b in batches}) == 3

    def test_a_missing_parquet_file_raises_with_its_path(self, engine: Engine, root: str) -> None:
        gone = FileStatus(f"{root}/gone", 10)
        check_is_missing(gone, lambda: self.read_parquet(engine, [FileSplit(gone)], pa.schema([("a", pa.int64())])))
        check_is_missing(gone, lambda: engine.parquet.split(gone, 2))

    @pytest.mark.parametrize("batch_size", [1, 2, 7, 100])
    def test_a_batch_has_at_most_so_many_rows(self, engine: Engine, root: str, batch_size: int) -> None:
        file = self.parquet(engine, f"{root}/f", pa.table({"n": range(30)}), 4)
        schema = pa.schema([("n", pa.int64()), ROW_INDEX])
        batches = self.read_parquet(engine, [FileSplit(file)], schema, batch_size=batch_size)
        assert max(b.num_rows for b in batches) <= batch_size
        assert all(b.schema.equals(schema) for b in batches)
        assert [r for b in batches for r in b.to_pylist()] == [{"n": i, ROW_INDEX.name: i} for i in range(30)]

    def test_the_columns_come_in_the_order_of_the_schema(self, engine: Engine, root: str) -> None:
        file = self.parquet(engine, f"{root}/f", pa.table({"a": [1], "b": ["x"], "c": [2.5]}))
        schema = pa.schema([("c", pa.float64()), ("a", pa.int64())])
        (batch,) = self.read_parquet(engine, [FileSplit(file)], schema)
        assert batch.schema.equals(schema)
        assert batch.to_pylist() == [{"c": 2.5, "a": 1}]

    def test_no_columns_still_count_the_rows(self, engine: Engine, root: str) -> None:
        file = self.parquet(engine, f"{root}/f", pa.table({"a": range(10)}), 3)
        batches = self.read_parquet(engine, [FileSplit(file)], pa.schema([]), batch_size=4)
        assert sum(b.num_rows for b in batches) == 10
        assert self.column(engine, file, ROW_INDEX) == list(range(10))

    def test_a_nullable_column_that_is_missing_is_null(self, engine: Engine, root: str) -> None:
        inner = pa.struct([("x", pa.int64())])
        table = pa.table({"a": [1, 2], "s": pa.array([{"x": 1}, None], inner)})
        file = self.parquet(engine, f"{root}/f", table)
        assert self.column(engine, file, pa.field("gone", pa.string())) == [None, None]
        wider = pa.struct([("y", pa.list_(pa.int64())), ("x", pa.int64())])
        assert self.column(engine, file, pa.field("s", wider)) == [{"y": None, "x": 1}, None]
        only_missing = pa.struct([("y", pa.int64())])
        assert self.column(engine, file, pa.field("s", only_missing)) == [{"y": None}, None]

    def test_a_required_column_that_is_missing_is_an_error(self, engine: Engine, root: str) -> None:
        file = self.parquet(engine, f"{root}/f", pa.table({"a": [1], "s": [{"x": 1}]}))
        required = pa.field("gone", pa.int64(), nullable=False)
        for field in (required, pa.field("s", pa.struct([required]))):
            with pytest.raises(CorruptTableError, match="gone") as caught:
                self.column(engine, file, field)
            assert caught.value.path == file.path

    def test_a_column_with_a_field_id_is_matched_by_it_and_not_by_its_name(self, engine: Engine, root: str) -> None:
        element = pa.struct([by_id(pa.field("p", pa.int64()), 12), by_id(pa.field("q", pa.int64()), 13)])
        stored = pa.schema(
            [
                by_id(pa.field("a", pa.int64()), 1),
                by_id(pa.field("b", pa.int64()), 2),
                by_id(pa.field("s", pa.struct([by_id(pa.field("x", pa.int64()), 4), pa.field("z", pa.int64())])), 3),
                by_id(pa.field("l", pa.list_(pa.field("element", element))), 5),
                by_id(pa.field("m", pa.map_(pa.string(), element)), 6),
            ]
        )
        row = {"a": 1, "b": 2, "s": {"x": 3, "z": 4}, "l": [{"p": 5, "q": 6}], "m": [("k", {"p": 7, "q": 8})]}
        file = self.parquet(engine, f"{root}/f", pa.Table.from_pylist([row], schema=stored))
        assert self.column(engine, file, by_id(pa.field("a", pa.int64()), 2)) == [2]
        assert self.column(engine, file, by_id(pa.field("b", pa.int64()), 99)) == [None]
        renamed = pa.struct([by_id(pa.field("z", pa.int64()), 4), by_id(pa.field("x", pa.int64()), 98)])
        assert self.column(engine, file, by_id(pa.field("t", renamed), 3)) == [{"z": 3, "x": None}]
        swapped = pa.struct([by_id(pa.field("p", pa.int64()), 13), by_id(pa.field("new", pa.int64()), 12)])
        assert self.column(engine, file, by_id(pa.field("l", pa.list_(pa.field("element", swapped))), 5)) == [
            [{"p": 6, "new": 5}]
        ]
        assert self.column(engine, file, by_id(pa.field("m", pa.map_(pa.string(), swapped)), 6)) == [
            [("k", {"p": 8, "new": 7})]
        ]

    def test_nested_columns_keep_nulls_and_empties_apart(self, engine: Engine, root: str) -> None:
        kind = pa.struct([("l", pa.list_(pa.int32())), ("m", pa.map_(pa.string(), pa.int32()))])
        values: list[Any] = [{"l": [1, None], "m": [("k", None)]}, None, {"l": [], "m": []}, {"l": None, "m": None}]
        file = self.parquet(engine, f"{root}/f", pa.table({"s": pa.array(values, kind)}))
        wide = pa.struct([("l", pa.list_(pa.int64())), ("m", pa.map_(pa.string(), pa.int64()))])
        for size in (None, 1):
            assert self.column(engine, file, pa.field("s", wide), batch_size=size) == values

    @pytest.mark.parametrize(
        ("values", "stored", "wanted", "expected"),
        [
            ([1, None], pa.int8(), pa.int64(), [1, None]),
            ([7], pa.int32(), pa.float64(), [7.0]),
            ([1.5], pa.float32(), pa.float64(), [1.5]),
            ([7], pa.int32(), pa.decimal128(12, 2), [Decimal("7.00")]),
            ([Decimal("1.25")], pa.decimal128(5, 2), pa.decimal128(10, 4), [Decimal("1.2500")]),
            ([date(2026, 1, 2)], pa.date32(), pa.timestamp("us"), [datetime(2026, 1, 2)]),
            (
                [1500],
                pa.timestamp("ms", "UTC"),
                pa.timestamp("us", "UTC"),
                [datetime(1970, 1, 1, 0, 0, 1, 500000, UTC)],
            ),
        ],
    )
    def test_a_narrower_column_is_widened(
        self, engine: Engine, root: str, values: list[Any], stored: pa.DataType, wanted: pa.DataType, expected: Any
    ) -> None:
        file = self.parquet(engine, f"{root}/f", pa.table({"a": pa.array(values, stored)}))
        (batch,) = self.read_parquet(engine, [FileSplit(file)], pa.schema([("a", wanted)]))
        assert batch.schema.field(0).type == wanted
        assert batch.column(0).to_pylist() == expected

    @pytest.mark.parametrize(
        ("stored", "wanted"),
        [
            (pa.array(["1"]), pa.int64()),
            (pa.array([1]), pa.string()),
            (pa.array([1.5]), pa.int32()),
            (pa.array([2**40]), pa.int32()),
            (pa.array([True]), pa.int64()),
            (pa.array([[1]]), pa.int64()),
            (pa.array([date(2026, 1, 1)]), pa.timestamp("us", "UTC")),
        ],
    )
    def test_a_column_of_another_type_is_an_error(
        self, engine: Engine, root: str, stored: pa.Array, wanted: pa.DataType
    ) -> None:
        file = self.parquet(engine, f"{root}/f", pa.table({"a": stored}))
        with pytest.raises(CorruptTableError, match="'a'") as caught:
            self.read_parquet(engine, [FileSplit(file)], pa.schema([("a", wanted)]))
        assert caught.value.path == file.path

    def test_a_marked_column_has_the_type_that_the_file_has(self, engine: Engine, root: str) -> None:
        variant = pa.array([{"value": b"\x0c\x07", "metadata": b"\x01\x00\x00"}, None])
        stats = pa.array([{"n": 1, "min": {"a": 5}}, {"n": None, "min": None}])
        file = self.parquet(engine, f"{root}/f", pa.table({"v": variant, "stats": stats}))
        plain = pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary())])
        as_text = pa.struct([("n", pa.string()), ("min", pa.struct([("a", pa.string())]))])
        schema = pa.schema(
            [
                pa.field("v", plain, metadata=VARIANT_METADATA),
                pa.field("stats", as_text, metadata={AS_STORED: b"true"}),
                pa.field("gone", as_text, metadata={AS_STORED: b"true"}),
            ]
        )
        (batch,) = self.read_parquet(engine, [FileSplit(file)], schema)
        assert batch.schema.names == ["v", "stats", "gone"]
        assert batch.column("v").to_pylist() == [{"value": b"\x0c\x07", "metadata": b"\x01\x00\x00"}, None]
        assert batch.column("stats").to_pylist() == stats.to_pylist()
        assert batch.column("gone").null_count == 2

    def test_the_row_index_counts_the_physical_file(self, engine: Engine, root: str) -> None:
        file = self.parquet(engine, f"{root}/f", pa.table({"n": range(100)}), 10)
        schema = pa.schema([ROW_INDEX, ("n", pa.int64())])
        for predicate in (col("n") >= 55, (col("n") < 5) | (col("n") > 93), col("n") == 42, col("n") == 1000):
            batches = self.read_parquet(engine, [FileSplit(file)], schema, predicate=predicate)
            found = [(r["n"], r[ROW_INDEX.name]) for b in batches for r in b.to_pylist()]
            assert all(number == index for number, index in found)
            assert {n for n, _ in found} >= {n for n in range(100) if self.matches(engine, predicate, n)}
        for split in engine.parquet.split(file, 4):
            batches = self.read_parquet(engine, [split], schema, batch_size=3)
            assert all(r["n"] == r[ROW_INDEX.name] for b in batches for r in b.to_pylist())

    def matches(self, engine: Engine, predicate: Expression, number: int) -> bool:
        batch = pa.record_batch({"n": [number]})
        return bool(engine.expressions.predicate_evaluator(batch.schema, predicate)(batch, None)[0].as_py())

    def test_nulls_are_found_in_a_file_without_statistics(self, engine: Engine, root: str) -> None:
        data = parquet_bytes(pa.table({"n": [1, None, 3]}), write_statistics=False)
        file = self.write(engine, f"{root}/f", data)
        assert None in self.column(engine, file, pa.field("n", pa.int64()), predicate=col("n").is_null())

    @pytest.mark.parametrize("parts", [1, 2, 3, 7, 50])
    def test_the_parts_of_a_file_are_together_the_whole(self, engine: Engine, root: str, parts: int) -> None:
        file = self.parquet(engine, f"{root}/f", pa.table({"n": range(100)}), 15)
        splits = engine.parquet.split(file, parts)
        assert 1 <= len(splits) <= parts
        assert all(s.file == file for s in splits)
        found = [
            v
            for split in splits
            for b in self.read_parquet(engine, [split], pa.schema([("n", pa.int64())]))
            for v in b.column(0).to_pylist()
        ]
        assert found == list(range(100))

    def test_an_empty_file_has_one_part_and_no_rows(self, engine: Engine, root: str) -> None:
        file = self.parquet(engine, f"{root}/f", pa.table({"n": pa.array([], pa.int64())}))
        splits = engine.parquet.split(file, 3)
        assert len(splits) == 1
        assert sum(b.num_rows for b in self.read_parquet(engine, splits, pa.schema([("n", pa.int64())]))) == 0

    @pytest.mark.parametrize("damage", [b"", b"PAR1", b"no parquet at all", None])
    def test_a_damaged_parquet_file_names_its_path(self, engine: Engine, root: str, damage: bytes | None) -> None:
        good = parquet_bytes(pa.table({"n": range(1000)}))
        data = good[: len(good) // 2] if damage is None else damage
        file = self.write(engine, f"{root}/bad.parquet", data)
        with pytest.raises(CorruptTableError) as caught:
            self.read_parquet(engine, [FileSplit(file)], pa.schema([("n", pa.int64())]))
        assert caught.value.path == file.path
        assert not isinstance(caught.value, MissingFileError)

    def test_text_that_is_not_utf_8_is_an_error(self, engine: Engine, root: str) -> None:
        table = pa.table({"t": ["good", "bad text", None], "n": [1, 2, 3]})
        data = parquet_bytes(table, compression="none", use_dictionary=False, write_statistics=False)
        file = self.write(engine, f"{root}/f", data.replace(b"bad text", b"bad\xff\xfe\xfd\xfc\xfb"))
        with pytest.raises(CorruptTableError) as caught:
            self.column(engine, file, pa.field("t", pa.string()))
        assert caught.value.path == file.path
        assert self.column(engine, file, pa.field("n", pa.int64())) == [1, 2, 3]

    def test_old_timestamps_are_microseconds(self, engine: Engine, root: str) -> None:
        moments = [datetime(2026, 1, 1, 12, tzinfo=UTC), None, datetime(1900, 1, 1, tzinfo=UTC)]
        sink = io.BytesIO()
        table = pa.table({"t": pa.array(moments, pa.timestamp("us", "UTC"))})
        pq.write_table(table, sink, use_deprecated_int96_timestamps=True)
        file = self.write(engine, f"{root}/f", sink.getvalue())
        assert self.column(engine, file, pa.field("t", pa.timestamp("us", "UTC"))) == moments
