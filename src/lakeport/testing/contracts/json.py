"""The contract of a `JsonHandler`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakeport.errors import CorruptTableError
from lakeport.kernel.engine import FILE_INDEX, Engine, FileStatus
from lakeport.testing.contracts.contract import Contract, check_is_missing


class JsonContract(Contract):
    """JSON becomes Arrow as `JsonHandler` specifies."""

    # Files

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

    def test_no_batch_has_lines_of_two_files(self, engine: Engine, root: str) -> None:
        files = [self.write(engine, f"{root}/{i}.json", b'{"n": %d}\n' % i * 3) for i in range(3)]
        for batch in engine.json.read_json_files(files, pa.schema([("n", pa.int64())])):
            assert len(set(batch["n"].to_pylist())) <= 1

    def test_batches_of_several_files_have_the_index_of_the_file_of_each_row(self, engine: Engine, root: str) -> None:
        texts = [b'{"n": 1}\n{"n": 2}', b"", b"\n", b'{"n": 3}\n', b'{"n": 4}\n\n{"_file_index": 9}\r\n', b'{"n": 5}']
        files = [self.write(engine, f"{root}/{i}.json", text) for i, text in enumerate(texts)]
        found = self.read_json(engine, files, pa.schema([FILE_INDEX, ("n", pa.int64())]))
        assert [(row["_file_index"], row["n"]) for row in found] == [(0, 1), (0, 2), (3, 3), (4, 4), (4, None), (5, 5)]
        found = self.read_json(engine, files[:1] + files[3:4] * 2, pa.schema([("n", pa.int64()), FILE_INDEX]))
        assert [(row["_file_index"], row["n"]) for row in found] == [(0, 1), (0, 2), (1, 3), (2, 3)]

    def test_an_object_that_is_cut_between_two_files_is_invalid(self, engine: Engine, root: str) -> None:
        files = [self.write(engine, f"{root}/{i}.json", text) for i, text in enumerate([b'{"s":', b'{"a": "x"}}'])]
        with pytest.raises(CorruptTableError) as caught:
            self.read_json(engine, files, pa.schema([*self.JSON_SCHEMA, FILE_INDEX]))
        assert caught.value.path == files[0].path

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
    def test_a_bad_json_line_names_its_file(self, engine: Engine, root: str, bad: bytes) -> None:
        good = self.write(engine, f"{root}/0.json", b'{"n": 1}\n')
        file = self.write(engine, f"{root}/1.json", b'{"n": 1}\n{"n": 2}\n' + bad + b'\n{"n": 3}\n')
        with pytest.raises(CorruptTableError) as caught:
            list(engine.json.read_json_files([good, file], self.JSON_SCHEMA))
        assert caught.value.path == file.path
        with pytest.raises(CorruptTableError) as caught:
            list(engine.json.read_json_files([good, file], pa.schema([*self.JSON_SCHEMA, FILE_INDEX])))
        assert caught.value.path == file.path

    @pytest.mark.parametrize("bad", [b'{"n": 1', b"text", b'{"n": 1}}'])
    def test_text_that_is_not_json_names_its_line(self, engine: Engine, root: str, bad: bytes) -> None:
        file = self.write(engine, f"{root}/1.json", b'{"n": 1}\n\n{"n": 2}\n' + bad + b'\n{"n": 3}\n')
        with pytest.raises(CorruptTableError, match=r"line 4\b"):
            list(engine.json.read_json_files([file], self.JSON_SCHEMA))

    def test_a_missing_json_file_raises_with_its_path(self, engine: Engine, root: str) -> None:
        gone = FileStatus(f"{root}/gone", 10)
        check_is_missing(gone, lambda: self.read_json(engine, [gone], self.JSON_SCHEMA))

    # Texts

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
