"""The contract of an engine: every obligation in the docstrings of `lakeport.kernel.engine`, as tests.

A subclass gives an engine and a place where it may write; pytest collects the subclass.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.errors import (
    CorruptTableError,
    LakeportError,
    MissingFileError,
    UnknownColumnError,
    UnsupportedExpressionError,
)
from lakeport.kernel.engine import AS_STORED, FIELD_ID, ROW_INDEX, Engine, FileSplit, FileStatus
from lakeport.kernel.expressions import Expression, Literal, col, lit
from lakeport.kernel.schema import VARIANT_METADATA, StructField
from tests.builder import TableBuilder, mapped, parquet_bytes, protocol, read, rows, struct
from tests.writing_contract import WritingContract


def by_id(field: pa.Field, number: int) -> pa.Field:
    return field.with_metadata({FIELD_ID: str(number).encode()})


class EngineContract(WritingContract):
    """Fixtures `engine` and `root` (a directory of `engine.storage` that is empty) come from the subclass."""

    # Storage

    def test_a_resolved_path_is_absolute_and_ends_in_no_slash(self, engine: Engine, root: str) -> None:
        assert engine.storage.resolve(f"{root}/table/") == f"{root}/table"
        assert engine.storage.resolve(f"{root}/table") == f"{root}/table"

    def test_a_listing_is_sorted_and_starts_with_the_first_name(self, engine: Engine, root: str) -> None:
        for name in ("b", "a", "c.json", "c", "B", "ü", "deeper/x"):
            engine.storage.write(f"{root}/{name}", b"12345")
        found = list(engine.storage.list_from(root, ""))
        assert [f.path.removeprefix(f"{root}/") for f in found] == ["B", "a", "b", "c", "c.json", "ü"]
        assert all(f.size == 5 and abs(f.modification_time / 1000 - datetime.now().timestamp()) < 600 for f in found)
        assert [f.path for f in engine.storage.list_from(root, "b")] == [
            f"{root}/{n}" for n in ("b", "c", "c.json", "ü")
        ]
        assert [f.path for f in engine.storage.list_from(root, "bb")] == [f"{root}/{n}" for n in ("c", "c.json", "ü")]
        assert list(engine.storage.list_from(root, "\U0010ffff")) == []

    def test_a_directory_that_does_not_exist_lists_nothing(self, engine: Engine, root: str) -> None:
        assert list(engine.storage.list_from(f"{root}/nowhere", "")) == []

    def test_a_read_ends_where_the_file_ends(self, engine: Engine, root: str) -> None:
        path = f"{root}/with space & %25"
        engine.storage.write(path, b"0123456789")
        assert engine.storage.read(path) == b"0123456789"
        assert engine.storage.read(path, 3) == b"3456789"
        assert engine.storage.read(path, 3, 4) == b"3456"
        assert engine.storage.read(path, 8, 100) == b"89"
        assert engine.storage.read(path, 50, 10) == b""

    def test_a_missing_file_is_told_by_type_and_path(self, engine: Engine, root: str) -> None:
        gone = FileStatus(f"{root}/gone", 10)
        for attempt in (
            lambda: engine.storage.read(gone.path),
            lambda: engine.storage.read(gone.path, 2, 3),
            lambda: list(engine.storage.read_many([gone])),
            lambda: engine.storage.open_input(gone).read(),
            lambda: list(engine.json.read_json_files([gone], pa.schema([("a", pa.int64())]))),
            lambda: self.read_parquet(engine, [FileSplit(gone)], pa.schema([("a", pa.int64())])),
            lambda: engine.parquet.split(gone, 2),
        ):
            with pytest.raises(MissingFileError) as caught:
                attempt()
            assert caught.value.path == gone.path
            assert isinstance(caught.value, FileNotFoundError)

    def test_many_files_are_read_in_order(self, engine: Engine, root: str) -> None:
        files = [self.write(engine, f"{root}/{i}", str(i).encode()) for i in (5, 3, 9, 1, *range(20, 60))]
        assert list(engine.storage.read_many(files)) == [f.path.rpartition("/")[2].encode() for f in files]
        assert list(engine.storage.read_many([])) == []

    def test_an_opened_file_is_read_at_random(self, engine: Engine, root: str) -> None:
        data = bytes(range(256)) * 20_000  # larger than what may be fetched whole
        with engine.storage.open_input(self.write(engine, f"{root}/large", data)) as file:
            assert file.size() == len(data)
            file.seek(4_000_007)
            assert file.read(10) == data[4_000_007:4_000_017]
            file.seek(0)
            assert file.read(3) == data[:3]

    def test_a_file_is_created_only_once(self, engine: Engine, root: str) -> None:
        path = f"{root}/new/0.json"
        engine.storage.write(path, b"first")
        with pytest.raises(FileExistsError):
            engine.storage.write(path, b"second")
        assert engine.storage.read(path) == b"first"
        engine.storage.write(path, b"third", overwrite=True)
        assert engine.storage.read(path) == b"third"
        assert [f.path for f in engine.storage.list_from(f"{root}/new", "")] == [path]

    def write(self, engine: Engine, path: str, data: bytes) -> FileStatus:
        engine.storage.write(path, data)
        return FileStatus(path, len(data))

    # JSON files

    JSON_SCHEMA = pa.schema(
        [
            ("n", pa.int64()),
            ("s", pa.struct([("a", pa.string()), ("m", pa.map_(pa.string(), pa.string())), ("b", pa.bool_())])),
            ("l", pa.list_(pa.string())),
        ]
    )

    def read_json(self, engine: Engine, files: Sequence[FileStatus], schema: pa.Schema) -> list[dict[str, Any]]:
        batches = list(engine.json.read_json_files(files, schema))
        assert all(batch.schema.equals(schema) for batch in batches)
        return [row for batch in batches for row in batch.to_pylist()]

    def test_json_lines_come_in_the_order_of_the_files_given(self, engine: Engine, root: str) -> None:
        files = [
            self.write(engine, f"{root}/{i}.json", b"".join(b'{"n": %d}\n' % (i * 100 + k) for k in range(50)))
            for i in (3, 1, 2)
        ]
        found = self.read_json(engine, files, pa.schema([("n", pa.int64())]))
        assert [row["n"] for row in found] == [i * 100 + k for i in (3, 1, 2) for k in range(50)]

    def test_json_order_holds_for_a_large_file(self, engine: Engine, root: str) -> None:
        text = "".join(json.dumps({"n": k, "pad": "x" * 100}) + "\n" for k in range(30_000))
        found = self.read_json(engine, [self.write(engine, f"{root}/l", text.encode())], pa.schema([("n", pa.int64())]))
        assert [row["n"] for row in found] == list(range(30_000))

    def test_unknown_keys_are_ignored_and_missing_ones_are_null(self, engine: Engine, root: str) -> None:
        lines = [
            {"n": 1, "odd": [1, {"n": 2}], "s": {"a": "x", "m": {"k": "v", "w": None}, "odd": 1}},
            {"s": {"b": True}, "l": ["p", None]},
            {"odd": {"n": "no number"}},
            {"s": None, "l": []},
            {"s": {}},
        ]
        data = "\n".join(map(json.dumps, lines)).encode()
        found = self.read_json(engine, [self.write(engine, f"{root}/0.json", data)], self.JSON_SCHEMA)
        empty: dict[str, Any] = {"n": None, "s": None, "l": None}
        nothing: dict[str, Any] = {"a": None, "m": None, "b": None}
        assert found == [
            {"n": 1, "s": {"a": "x", "m": [("k", "v"), ("w", None)], "b": None}, "l": None},
            empty | {"s": nothing | {"b": True}, "l": ["p", None]},
            empty,
            empty | {"l": []},
            empty | {"s": nothing},
        ]

    def test_an_object_is_a_struct_where_the_schema_has_no_map(self, engine: Engine, root: str) -> None:
        file = self.write(engine, f"{root}/0.json", b'{"s": {"a": "x", "m": {"k": "v", "w": "y"}}}\n')
        schema = pa.schema([("s", pa.struct([("m", pa.struct([("w", pa.string()), ("z", pa.string())]))]))])
        assert self.read_json(engine, [file], schema) == [{"s": {"m": {"w": "y", "z": None}}}]

    def test_blank_lines_and_empty_files_hold_nothing(self, engine: Engine, root: str) -> None:
        files = [
            self.write(engine, f"{root}/{i}", data)
            for i, data in enumerate([b"", b"\n\n", b' \n{"n": 1}\r\n\r\n{"n": 2}', b"\n"])
        ]
        assert self.read_json(engine, files, pa.schema([("n", pa.int64())])) == [{"n": 1}, {"n": 2}]

    @pytest.mark.parametrize(
        "bad",
        [
            b'{"n": 1',
            b'{"n": 1}}',
            b'{"n": "text"}',
            b'{"n": 1.5}',
            b'{"n": 9223372036854775808}',
            b'{"s": 7}',
            b'{"l": {"a": 1}}',
            b"[1]",
            b"text",
            b'{"s": {"a": "\xff"}}',
            b'{"s": {"m": {"k": 1}}}',
        ],
    )
    def test_a_bad_json_line_is_told_by_its_file(self, engine: Engine, root: str, bad: bytes) -> None:
        good = self.write(engine, f"{root}/0.json", b'{"n": 1}\n')
        file = self.write(engine, f"{root}/1.json", b'{"n": 1}\n{"n": 2}\n' + bad + b'\n{"n": 3}\n')
        with pytest.raises(CorruptTableError) as caught:
            list(engine.json.read_json_files([good, file], self.JSON_SCHEMA))
        assert caught.value.path == file.path

    @pytest.mark.parametrize("bad", [b'{"n": 1', b"text", b'{"n": 1}}'])
    def test_text_that_is_not_json_is_told_by_its_line(self, engine: Engine, root: str, bad: bytes) -> None:
        file = self.write(engine, f"{root}/1.json", b'{"n": 1}\n\n{"n": 2}\n' + bad + b'\n{"n": 3}\n')
        with pytest.raises(CorruptTableError, match=r"line 4\b"):
            list(engine.json.read_json_files([file], self.JSON_SCHEMA))

    # JSON texts

    def test_each_text_is_a_row_and_a_bad_cell_is_null(self, engine: Engine) -> None:
        schema = pa.schema(
            [
                ("n", pa.int32()),
                ("s", pa.struct([("a", pa.string()), ("t", pa.timestamp("us", "UTC")), ("d", pa.date32())])),
            ]
        )
        texts = [
            '{"n": 1, "s": {"a": "x", "t": "2026-01-01T00:00:00.123Z", "d": "2026-01-02"}}',
            None,
            "no json",
            '{"n": "1", "s": {"a": 1, "t": "yesterday", "d": "2026-13-01"}}',
            '{"n": 2147483648, "s": 5, "odd": 1}',
            "{}",
            '{"n": 2, "s": {"t": "2026-01-01T00:00:00+01:00"}}',
        ]
        batch = engine.json.parse_json(pa.array(texts, pa.string()), schema)
        assert batch.schema.equals(schema)
        assert batch.num_rows == len(texts)
        assert batch.column("n").to_pylist() == [1, None, None, None, None, None, 2]
        flat = batch.column("s").flatten()
        assert flat[0].to_pylist() == ["x", *[None] * 6]
        moment = datetime(2026, 1, 1, tzinfo=UTC)
        assert flat[1].to_pylist() == [
            moment.replace(microsecond=123000),
            *[None] * 5,
            datetime(2025, 12, 31, 23, tzinfo=UTC),
        ]
        assert flat[2].to_pylist() == [date(2026, 1, 2), *[None] * 6]

    def test_decimals_and_times_are_accepted_as_strings_and_as_numbers(self, engine: Engine) -> None:
        schema = pa.schema([("d", pa.decimal128(20, 2)), ("f", pa.float64()), ("t", pa.timestamp("us"))])
        texts = [
            '{"d": 123456789012345678.25, "f": 1, "t": "2026-01-01T00:00:00.123456"}',
            '{"d": "1.5", "f": "Infinity"}',
            '{"d": 1.555, "f": "text"}',
            '{"d": 7, "f": []}',
            '{"f": 1e400}',
        ]
        batch = engine.json.parse_json(pa.array(texts), schema)
        assert batch.column("d").to_pylist() == [
            Decimal("123456789012345678.25"),
            Decimal("1.50"),
            None,
            Decimal("7.00"),
            None,
        ]
        assert batch.column("f").to_pylist() == [1.0, float("inf"), None, None, None]
        assert batch.column("t").to_pylist()[0] == datetime(2026, 1, 1, microsecond=123456)

    # Parquet

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
    def test_a_damaged_parquet_file_is_told_by_its_path(self, engine: Engine, root: str, damage: bytes | None) -> None:
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

    # Expressions

    def test_an_expression_gives_a_column(self, engine: Engine) -> None:
        batch = pa.record_batch({"a": [1, None, 3], "s": [{"x": 1}, {"x": None}, None]})
        evaluate = engine.expressions.evaluator
        assert evaluate(batch.schema, col("a"))(batch).to_pylist() == [1, None, 3]
        assert evaluate(batch.schema, col("s.x"))(batch).to_pylist() == [1, None, None]
        assert evaluate(batch.schema, lit(5))(batch).to_pylist() == [5, 5, 5]
        assert evaluate(batch.schema, col("a") > 1)(batch).to_pylist() == [False, None, True]

    def test_a_predicate_only_narrows_a_selection(self, engine: Engine) -> None:
        batch = pa.record_batch({"a": [1, None, 3, 4]})
        select = engine.expressions.predicate_evaluator(batch.schema, col("a") > 1)
        assert select(batch, None).to_pylist() == [False, False, True, True]
        assert select(batch, pa.array([True, True, False, True])).to_pylist() == [False, False, False, True]
        assert select(batch, pa.array([False] * 4)).to_pylist() == [False] * 4
        always = engine.expressions.predicate_evaluator(batch.schema, Literal(True))
        assert always(batch, pa.array([True, False, None, True])).to_pylist() == [True, False, False, True]

    def test_an_expression_that_is_not_known_is_refused(self, engine: Engine) -> None:
        class Odd(Expression):
            pass

        schema = pa.schema([("a", pa.int64())])
        with pytest.raises(UnsupportedExpressionError):
            engine.expressions.evaluator(schema, Odd())
        with pytest.raises(UnsupportedExpressionError):
            engine.expressions.predicate_evaluator(schema, Odd() == 1)
        with pytest.raises(UnknownColumnError):
            engine.expressions.evaluator(schema, col("b"))

    # Whole tables

    FORMS = (
        "classic",
        "parts",
        "v2-json",
        "v2-parquet",
        "v2-json-sidecars",
        "v2-parquet-sidecars",
        "v2-classic-sidecars",
    )

    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("mode", ["none", "name", "id"])
    def test_a_table_reads_the_same_through_every_engine(self, engine: Engine, root: str, form: str, mode: str) -> None:
        inner = struct(x="long", y="string")
        schema = struct(StructField("id", inner.fields[0].type), s=inner, day="date", t="timestamp")
        schema = schema if mode == "none" else mapped(schema)
        features = ["deletionVectors", "v2Checkpoint", *(["columnMapping"] if mode != "none" else [])]
        table = TableBuilder(
            engine, f"{root}/t", schema, ["day"], {"delta.columnMapping.mode": mode}, protocol(features=features)
        )
        names = [f.name for f in table.physical_schema()]
        inside = [f.name for f in table.physical_schema().field(1).type]
        day = next(f for f in schema if f.name == "day")
        day_name = day.physical_name(mode)
        moment = datetime(2026, 1, 1, 12, 30, 15, 123456, UTC)

        def add(first: int, text: str | None, **options: Any) -> dict[str, Any]:
            ids = list(range(first, first + 6))
            structs = [None if i % 3 == 0 else {inside[0]: i, inside[1]: f"n{i}"} for i in ids]
            data = dict(zip(names, (ids, structs, [moment, None] * 3), strict=True))
            return table.add(data, {day_name: text}, row_group_size=2, **options)

        first, second, third = add(0, "2026-01-01"), add(10, None), add(20, "2026-01-02")
        table.create(first, second)
        table.commit(third)
        table.commit(*table.delete(first, [1, 4]), *table.delete(second, [0, 5], "i"))
        table.checkpoint(form=form)
        table.commit({"remove": {"path": third["add"]["path"], "dataChange": True}}, add(30, ""))

        def row(i: int, text: date | None, offset: int) -> tuple[Any, ...]:
            return (i, None if i % 3 == 0 else {"x": i, "y": f"n{i}"}, text, None if offset % 2 else moment)

        expected = [row(i, date(2026, 1, 1), i) for i in (0, 2, 3, 5)]
        expected += [row(10 + i, None, i) for i in (1, 2, 3, 4)] + [row(30 + i, None, i) for i in range(6)]
        snapshot = table.snapshot()
        assert snapshot.segment.checkpoint is not None
        assert rows(snapshot) == sorted(expected, key=repr)
        assert rows(snapshot, batch_size=1) == sorted(expected, key=repr)
        assert rows(snapshot, (col("id") > 3) & (col("s.y") < "n2")) == sorted(
            (r for r in expected if r[0] > 3 and r[1] and r[1]["y"] < "n2"), key=repr
        )
        assert rows(snapshot, col("day") == date(2026, 1, 1)) == sorted(expected[:4], key=repr)
        pruned = snapshot.scan_builder().with_read_schema(snapshot.schema.select([("s", "y"), ("day",)])).build()
        assert read(snapshot, scan=pruned).column_names == ["s", "day"]

    def test_damage_to_a_table_is_a_typed_error_in_every_engine(self, engine: Engine, root: str) -> None:
        table = TableBuilder(engine, f"{root}/t", struct(id="long")).create()
        table.commit(table.add({"id": [1, 2]}, name="data.parquet"))
        table.write(f"{root}/t/data.parquet", b"PAR1 damaged PAR1")
        with pytest.raises(LakeportError, match=r"data\.parquet"):
            rows(table.snapshot())
