"""The contract of a `ParquetHandler` that writes."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lakeport.errors import CorruptTableError, InvalidDataError
from lakeport.kernel.engine import FIELD_ID, Engine, FileSplit, FileStatus
from lakeport.kernel.expressions import col, lit
from lakeport.kernel.schema import VARIANT_METADATA
from lakeport.testing.builder import parquet_bytes
from lakeport.testing.contracts.contract import Contract


class ParquetWritingContract(Contract):
    """Arrow becomes Parquet files as `ParquetHandler` specifies."""

    def write_batches(self, engine: Engine, path: str, schema: pa.Schema, *batches: pa.RecordBatch) -> FileStatus:
        writer = engine.parquet.open_writer(path, schema)
        for batch in batches:
            writer.write(batch)
        return writer.close()

    def opened(self, engine: Engine, file: FileStatus) -> pq.ParquetFile:
        data = engine.storage.read(file.path)
        assert len(data) == file.size
        return pq.ParquetFile(io.BytesIO(data))

    def read_back(self, engine: Engine, file: FileStatus, schema: pa.Schema, **options: Any) -> list[dict[str, Any]]:
        batches = list(engine.parquet.read_parquet_files([FileSplit(file)], schema, **options))
        assert all(batch.schema.equals(schema) for batch in batches)
        return [row for batch in batches for row in batch.to_pylist()]

    @pytest.mark.parametrize("compression", ["uncompressed", "snappy", "gzip", "zstd"])
    def test_a_file_is_compressed_as_asked_for(self, engine: Engine, root: str, compression: str) -> None:
        batch = pa.record_batch({"n": list(range(1000))})
        writer = engine.parquet.open_writer(f"{root}/f", batch.schema, compression)
        writer.write(batch)
        stored = self.opened(engine, writer.close()).metadata.row_group(0).column(0).compression
        assert stored.lower() == compression

    EVERY_TYPE = pa.schema(
        [
            pa.field("required", pa.int64(), nullable=False),
            ("byte", pa.int8()),
            ("short", pa.int16()),
            ("int", pa.int32()),
            ("float", pa.float32()),
            ("double", pa.float64()),
            ("bool", pa.bool_()),
            ("text", pa.string()),
            ("bytes", pa.binary()),
            ("day", pa.date32()),
            ("moment", pa.timestamp("us", "UTC")),
            ("local", pa.timestamp("us")),
            ("small", pa.decimal128(5, 2)),
            ("medium", pa.decimal128(18, 6)),
            ("large", pa.decimal128(38, 10)),
            ("s", pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field("y", pa.string())])),
            ("l", pa.list_(pa.field("element", pa.timestamp("us"), nullable=False))),
            ("m", pa.map_(pa.string(), pa.field("value", pa.decimal128(10, 2)))),
        ]
    )

    def every_value(self) -> list[dict[str, Any]]:
        moment = datetime(2026, 1, 2, 3, 4, 5, 123456)
        full: dict[str, Any] = {"byte": -128, "short": 2**15 - 1, "int": -(2**31), "float": 1.5, "bool": True}
        full |= {"double": float("-inf"), "text": "ü", "bytes": b"\xff\x00", "day": date(1, 1, 1), "local": moment}
        full |= {"moment": moment.replace(tzinfo=UTC), "small": Decimal("-999.99"), "medium": Decimal("0.000001")}
        full |= {"large": Decimal("1234567890123456789012345678.0123456789"), "s": {"x": 1, "y": None}}
        full |= {"l": [moment, moment], "m": [("a", Decimal("1.25")), ("b", None)]}
        return [
            {"required": 1} | full,
            {"required": 2} | dict.fromkeys(full),
            {"required": 2**63 - 1} | full | {"l": [], "m": [], "text": "", "double": 0.0},
        ]

    def test_every_type_is_read_as_it_was_written(self, engine: Engine, root: str) -> None:
        schema, rows = self.EVERY_TYPE, self.every_value()
        file = self.write_batches(engine, f"{root}/f", schema, pa.RecordBatch.from_pylist(rows, schema))
        assert self.read_back(engine, file, schema) == rows
        stored = self.opened(engine, file).schema_arrow
        assert all(stored.field(f.name).nullable == f.nullable for f in schema)
        assert not stored.field("s").type.field("x").nullable
        assert not stored.field("l").type.value_field.nullable
        assert stored.field("moment").type == pa.timestamp("us", "UTC")
        assert stored.field("local").type == pa.timestamp("us")

    def test_a_written_file_says_where_how_large_and_when(self, engine: Engine, root: str) -> None:
        before = engine.now()
        batch = pa.record_batch({"n": range(10)})
        file = self.write_batches(engine, f"{root}/p=1/f.parquet", batch.schema, batch)
        assert file.path == f"{root}/p=1/f.parquet"
        assert before <= file.modification_time <= engine.now()
        assert [(f.path, f.size) for f in engine.storage.list_all(root)] == [(file.path, file.size)]

    def test_a_file_without_rows_is_a_file(self, engine: Engine, root: str) -> None:
        schema = pa.schema([("n", pa.int64())])
        for name, batches in (("none", []), ("empty", [pa.RecordBatch.from_pylist([], schema)])):
            file = self.write_batches(engine, f"{root}/{name}", schema, *batches)
            assert self.opened(engine, file).metadata.num_rows == 0
            assert self.read_back(engine, file, schema) == []

    def test_field_ids_are_stored_at_every_level(self, engine: Engine, root: str) -> None:
        def field(number: int, name: str, kind: pa.DataType, nullable: bool = True) -> pa.Field:
            return pa.field(name, kind, nullable, {FIELD_ID: str(number).encode()})

        inner = pa.struct([field(12, "p", pa.int64()), pa.field("q", pa.int64())])
        schema = pa.schema(
            [
                field(1, "a", pa.int64()),
                field(2, "s", pa.struct([field(3, "x", pa.int64())])),
                field(4, "l", pa.list_(field(5, "element", inner))),
                field(6, "m", pa.map_(field(7, "key", pa.string(), False), field(8, "value", inner))),
            ]
        )
        row = {"a": 1, "s": {"x": 2}, "l": [{"p": 3, "q": 4}], "m": [("k", {"p": 5, "q": 6})]}
        file = self.write_batches(engine, f"{root}/f", schema, pa.RecordBatch.from_pylist([row], schema))
        text = str(self.opened(engine, file).schema)
        ids = {name: int(number) for number, name in re.findall(r"field_id=(-?\d+) (\w+)", text)}
        assert ids["q"] == -1
        expected = {"a": 1, "s": 2, "x": 3, "l": 4, "element": 5, "m": 6, "key": 7, "value": 8, "p": 12}
        assert {name: number for name, number in ids.items() if number >= 0} == expected
        renamed = pa.schema([field(2, "t", pa.struct([field(3, "y", pa.int64())])), field(99, "a", pa.int64())])
        assert self.read_back(engine, file, renamed) == [{"t": {"y": 2}, "a": None}]

    def test_a_variant_is_stored_as_a_plain_struct(self, engine: Engine, root: str) -> None:
        plain = pa.struct([pa.field(name, pa.binary(), nullable=False) for name in ("metadata", "value")])
        schema = pa.schema([pa.field("v", plain, metadata=VARIANT_METADATA)])
        rows = [{"v": {"metadata": b"\x01\x00\x00", "value": b"\x0c\x07"}}, {"v": None}]
        file = self.write_batches(engine, f"{root}/f", schema, pa.RecordBatch.from_pylist(rows, schema))
        assert self.opened(engine, file).schema_arrow.field("v").type == plain
        (batch,) = engine.parquet.read_parquet_files([FileSplit(file)], schema)
        assert batch.to_pylist() == rows

    def test_small_batches_share_a_row_group(self, engine: Engine, root: str) -> None:
        schema = pa.schema([("n", pa.int64())])
        batches = [pa.record_batch({"n": range(i * 100, i * 100 + 100)}) for i in range(500)]
        file = self.write_batches(engine, f"{root}/f", schema, *batches)
        assert self.opened(engine, file).metadata.num_row_groups == 1
        assert [row["n"] for row in self.read_back(engine, file, schema)] == list(range(50_000))

    def test_a_row_group_is_bounded_in_rows_and_bytes(self, engine: Engine, root: str) -> None:
        narrow = pa.record_batch({"n": pa.nulls(2_500_000, pa.int8())})
        groups = self.opened(engine, self.write_batches(engine, f"{root}/narrow", narrow.schema, narrow)).metadata
        sizes = [groups.row_group(i).num_rows for i in range(groups.num_row_groups)]
        assert sum(sizes) == 2_500_000
        assert max(sizes) <= 2 << 20
        wide = pa.record_batch({"t": ["x" * (1 << 20)] * 30})
        file = self.write_batches(engine, f"{root}/wide", wide.schema, *[wide] * 10)
        groups = self.opened(engine, file).metadata
        assert groups.num_rows == 300
        assert max(groups.row_group(i).num_rows for i in range(groups.num_row_groups)) <= 256

    def test_row_groups_have_statistics_that_skip(self, engine: Engine, root: str) -> None:
        schema = pa.schema([("n", pa.int64()), ("d", pa.decimal128(9, 2)), ("t", pa.timestamp("us", "UTC"))])
        row = {"n": 5, "d": Decimal("1.25"), "t": datetime(2026, 1, 1, microsecond=1, tzinfo=UTC)}
        file = self.write_batches(engine, f"{root}/f", schema, pa.RecordBatch.from_pylist([row], schema))
        group = self.opened(engine, file).metadata.row_group(0)
        assert all(group.column(i).statistics.has_min_max for i in range(3))
        for name, value in row.items():
            assert self.read_back(engine, file, schema, predicate=col(name) == lit(value)) == [row]
            assert self.read_back(engine, file, schema, predicate=col(name) >= lit(value)) == [row]

    def test_the_size_grows_towards_that_of_the_file(self, engine: Engine, root: str) -> None:
        batch = pa.record_batch({"t": [f"{i * 7919 % 100_003:09}" for i in range(100_000)]})
        writer = engine.parquet.open_writer(f"{root}/f", batch.schema)
        sizes = []
        for _ in range(25):
            writer.write(batch)
            sizes.append(writer.size)
        assert sizes[0] > 100_000
        size = writer.close().size
        assert size / 2 < sizes[-1] < size * 2

    @pytest.mark.parametrize(
        "batch",
        [
            pa.record_batch({"m": [1]}),
            pa.record_batch({"n": pa.array([1], pa.int32())}),
            pa.record_batch({"n": [1], "m": [2]}),
            pa.record_batch([pa.array([None], pa.int64())], pa.schema([pa.field("n", pa.int64(), nullable=False)])),
        ],
    )
    def test_a_batch_that_does_not_fit_is_refused_and_leaves_nothing(
        self, engine: Engine, root: str, batch: pa.RecordBatch
    ) -> None:
        schema = pa.schema([pa.field("n", pa.int64(), nullable=batch.schema.field(0).nullable)])
        writer = engine.parquet.open_writer(f"{root}/f", schema)
        writer.write(pa.record_batch([pa.array([7])], schema))
        with pytest.raises(InvalidDataError, match=r"'?[nm]\b"):
            self.write_and_close(writer, batch)
        writer.abort()
        assert self.names(engine, root) == set()

    def write_and_close(self, writer: Any, batch: pa.RecordBatch) -> None:
        writer.write(batch)
        writer.close()

    def test_a_file_that_is_given_up_leaves_nothing(self, engine: Engine, root: str) -> None:
        batch = pa.record_batch({"n": range(1_200_000)})
        for rows in (0, 10, 1_200_000):
            writer = engine.parquet.open_writer(f"{root}/{rows}", batch.schema)
            writer.write(batch.slice(0, rows))
            writer.abort()
            writer.abort()
            del writer
        assert self.names(engine, root) == set()

    def test_an_abort_after_the_close_keeps_the_file(self, engine: Engine, root: str) -> None:
        batch = pa.record_batch({"n": range(10)})
        writer = engine.parquet.open_writer(f"{root}/f", batch.schema)
        writer.write(batch)
        file = writer.close()
        writer.abort()
        assert len(self.read_back(engine, file, batch.schema)) == 10

    def test_parquet_files_are_written_by_several_threads_at_once(self, engine: Engine, root: str) -> None:
        schema = pa.schema([("n", pa.int64())])

        def write(number: int) -> FileStatus:
            batches = [pa.record_batch({"n": [number] * 1000}) for _ in range(20)]
            return self.write_batches(engine, f"{root}/{number}", schema, *batches)

        with ThreadPoolExecutor(4) as pool:
            files = list(pool.map(write, range(8)))
        for number, file in enumerate(files):
            assert [row["n"] for row in self.read_back(engine, file, schema)] == [number] * 20_000

    def test_an_encoded_file_is_one_that_a_writer_makes(self, engine: Engine, root: str) -> None:
        rows = self.every_value()
        batches = [pa.RecordBatch.from_pylist([row], self.EVERY_TYPE) for row in rows]
        data = engine.parquet.encode_parquet(iter(batches), self.EVERY_TYPE)
        file = self.write_batches(engine, f"{root}/f", self.EVERY_TYPE, *batches)
        assert data == engine.storage.read(file.path)
        with pytest.raises(InvalidDataError):
            engine.parquet.encode_parquet([pa.record_batch({"n": [1]})], self.EVERY_TYPE)

    TEXTS = ("", "a", "ü", "\uffff", "😀", "z" * 5000, "😀" * 3000, None, None)

    @pytest.mark.parametrize("seed", range(8))
    def test_the_bounds_of_text_and_decimals_are_exact(self, engine: Engine, root: str, seed: int) -> None:
        choose = Random(seed)
        numbers = [None, Decimal(0), Decimal("1e27"), Decimal("-1e27"), Decimal("0.0000000015")]
        rows: list[dict[str, Any]] = [
            {"t": text, "d": choose.choice(numbers), "s": choose.choice([None, {"a b.c": text}])}
            for text in choose.choices(self.TEXTS[choose.randrange(9) :], k=choose.randrange(1, 30))
        ]
        leaf = pa.struct([("x", pa.list_(pa.string())), ("a b.c", pa.string())])
        schema = pa.schema([("l", pa.list_(leaf)), ("t", pa.string()), ("d", pa.decimal128(38, 10)), ("s", leaf)])
        paths = [("d",), ("t",), ("s", "a b.c")]
        writer = engine.parquet.open_writer(f"{root}/f", schema, "snappy", paths)
        for start in range(0, len(rows), 7):
            writer.write(pa.RecordBatch.from_pylist(rows[start : start + 7], schema))
        writer.close()
        for path in paths:
            values = [row[path[0]] if path[1:] == () else (row["s"] or {}).get("a b.c") for row in rows]
            known = [value for value in values if value is not None]
            assert writer.bounds(path) == ((min(known), max(known)) if known else None)

    def test_bounds_are_those_of_all_row_groups(self, engine: Engine, root: str) -> None:
        schema = pa.schema([("t", pa.string())])
        writer = engine.parquet.open_writer(f"{root}/f", schema, "snappy", [("t",)])
        for text in ("m", "z", "a", "c"):
            writer.write(pa.record_batch({"t": [text * 100] * 700_000}))
        assert self.opened(engine, writer.close()).metadata.num_row_groups > 1
        assert writer.bounds(("t",)) == ("a" * 100, "z" * 100)

    TEXT_SCHEMA = pa.schema(
        [
            pa.field("required", pa.string(), nullable=False),
            ("few", pa.string()),
            ("many", pa.string()),
            ("n", pa.int64()),
        ]
    )

    def texts(self, start: int, rows: int, values: Sequence[str | None]) -> pa.RecordBatch:
        few = [values[number % len(values)] for number in range(rows)]
        columns = [["r"] * rows, few, [f"{number:010}" for number in range(start, start + rows)], range(rows)]
        return pa.record_batch(
            [pa.array(c, f.type) for c, f in zip(columns, self.TEXT_SCHEMA, strict=True)], self.TEXT_SCHEMA
        )

    def test_rows_that_are_read_encoded_are_written_again(self, engine: Engine, root: str) -> None:
        """A file mixes batches that have dictionaries, different ones, and none."""
        parts = [
            self.texts(0, 30_000, ["b", None, "a"]),
            self.texts(30_000, 20_000, ["c" * 40, "", "ü"]),
            self.texts(50_000, 10_000, [f"{number:07}" for number in range(10_000)]),
            self.texts(60_000, 20_000, [None]),
            self.texts(80_000, 1_000, ["unused", "z" * 5000]),
        ]
        files = [self.write_batches(engine, f"{root}/{i}", part.schema, part) for i, part in enumerate(parts)]
        for name, order in (("up", files), ("down", files[::-1])):
            writer = engine.parquet.open_writer(f"{root}/{name}", self.TEXT_SCHEMA, "snappy", [("few",), ("many",)])
            expected = []
            for file in order:
                for batch in engine.parquet.read_encoded(FileSplit(file), self.TEXT_SCHEMA, 7_000):
                    assert batch.num_rows <= 7_000
                    chosen = pc.not_equal(pc.fill_null(batch.column("few").cast(pa.string()), ""), "unused")
                    writer.write(batch.filter(chosen))
                    expected += batch.filter(chosen).to_pylist()
            assert self.read_back(engine, writer.close(), self.TEXT_SCHEMA) == expected
            assert len(expected) == 80_500
            assert writer.bounds(("few",)) == ("", "ü")
            assert writer.bounds(("many",)) == ("0000000000", "0000080999")

    def test_encoded_rows_are_those_of_the_schema(self, engine: Engine, root: str) -> None:
        """Whatever columns the file has."""
        rows = self.texts(0, 5_000, ["a", "b"])
        file = self.write_batches(engine, f"{root}/f", rows.schema, rows)
        for schema in (
            self.TEXT_SCHEMA,
            pa.schema([self.TEXT_SCHEMA.field("few")]),
            pa.schema([self.TEXT_SCHEMA.field("n"), self.TEXT_SCHEMA.field("few")]),
            pa.schema([*self.TEXT_SCHEMA, pa.field("missing", pa.string())]),
            pa.schema([pa.field("few", pa.string(), metadata={FIELD_ID: b"9"})]),
        ):
            found = [row for b in engine.parquet.read_encoded(FileSplit(file), schema) for row in b.to_pylist()]
            assert found == self.read_back(engine, file, schema)

    def test_encoded_text_that_is_not_utf8_is_an_error(self, engine: Engine, root: str) -> None:
        broken = pa.array([b"\xff", b"a"] * 2_000).view(pa.string())
        engine.storage.write(f"{root}/f", parquet_bytes(pa.table({"t": broken})))
        (file,) = engine.storage.list_all(root)
        with pytest.raises(CorruptTableError):
            list(engine.parquet.read_encoded(FileSplit(file), pa.schema([("t", pa.string())])))
