"""Tables that Lakeport writes, with every operation and every feature, for peers to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakeport
from lakeport import tables
from lakeport.engine import engine_over
from lakeport.engine.clock import system_clock
from lakeport.engine.storage.storage import Storage
from lakeport.kernel.schema import VARIANT_METADATA, PrimitiveType, StructField, StructType
from tests.properties import FEED, MAPPED, TRACKING, VECTORS

Write = Callable[[str], None]
DAY = 86_400_000

TIMES = {"delta.enableInCommitTimestamps": "true"}
BY_ID = {"delta.columnMapping.mode": "id"}
WIDENING = {"delta.enableTypeWidening": "true"}
OFTEN = {"delta.checkpointInterval": "3"}
V2 = {"delta.checkpointPolicy": "v2"}
STRUCTS_ONLY = {"delta.checkpoint.writeStatsAsStruct": "true", "delta.checkpoint.writeStatsAsJson": "false"}
STRUCTS = {"delta.checkpoint.writeStatsAsStruct": "true"}

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("part", pa.string()),
        ("n", pa.int32()),
        ("text", pa.string()),
        ("s", pa.struct([("a", pa.int64()), ("b", pa.string())])),
    ]
)
ODD = ["a b", "50%", "%20", "x/y", "#?&=+", "10:30", "São Paulo", "北京", 'a"b', "a\\b", "{x}", "\u0001\n", "", None]


def rows(start: int, end: int) -> pa.Table:
    """Rows with nulls in every column but the id."""
    made = [
        {
            "id": i,
            "part": None if i % 11 == 5 else f"p {i % 3}",
            "n": None if i % 7 == 2 else i % 10,
            "text": None if i % 5 == 1 else f"text {i}",
            "s": None if i % 13 == 4 else {"a": i * 10, "b": f"b{i % 4}"},
        }
        for i in range(start, end)
    ]
    return pa.Table.from_pylist(made, SCHEMA)


def story(path: str, properties: Mapping[str, str], partition_by: Sequence[str] = ()) -> None:
    """Every operation that changes rows, and some that change columns."""
    tables.create(path, rows(0, 40), properties=properties, partition_by=partition_by)
    tables.append(path, rows(40, 60), application=("story", 7))
    tables.delete(path, "id % 10 = 3")
    tables.update(path, {"n": "id % 100", "s.b": lakeport.lit("changed")}, "id BETWEEN 15 AND 34")
    merge = tables.merge(path, rows(50, 70), "target.id = source.id")
    merge = merge.when_matched_delete("target.id % 2 = 0").when_matched_update({"text": "concat(source.text, '!')"})
    merge.when_not_matched_insert_all().when_not_matched_by_source_update({"n": -1}, "target.id < 4").execute()
    tables.overwrite(path, rows(100, 110), where="id >= 100 OR id < 8")
    tables.optimize(path, purge=True)
    tables.delete(path, "part = 'p 1'")
    if partition_by:
        tables.overwrite(path, rows(200, 206), partitions="dynamic")
    tables.restore(path, version=4)
    tables.add_columns(path, {"more": "decimal(9,2)", "s.c": "array<int>"})
    tables.append(path, pa.table({"id": [300, 301], "part": ["new", None], "more": [Decimal("1.50"), None]}))
    tables.update(path, {"more": "0.25"}, "id = 300 OR id = 15")
    tables.overwrite(path, rows(0, 12))
    tables.delete(path)
    tables.append(path, rows(5, 9))


def plain(path: str) -> None:
    story(path, OFTEN)


def with_vectors(path: str) -> None:
    story(path, VECTORS | OFTEN | FEED, ["part"])


def with_feed(path: str) -> None:
    story(path, FEED | OFTEN | STRUCTS, ["part"])


def with_everything(path: str) -> None:
    story(path, VECTORS | FEED | TRACKING | TIMES | V2 | OFTEN | STRUCTS_ONLY | MAPPED, ["part"])


def tracked_by_id(path: str) -> None:
    story(path, FEED | TRACKING | BY_ID | OFTEN | STRUCTS)


def renamed(mode: str) -> Write:
    """Columns come, go and change their names, also in lists and maps."""

    def write(path: str) -> None:
        items = pa.list_(pa.struct([("a", pa.int32()), ("b c", pa.string())]))
        pairs = pa.map_(pa.string(), pa.struct([("x, ;{}()=", pa.int64())]))
        schema = pa.schema([("the id", pa.int64()), ("city", pa.string()), ("items", items), ("pairs", pairs)])

        def some(start: int) -> pa.Table:
            made = [
                {
                    "the id": i,
                    "city": f"c{i % 2}",
                    "items": [{"a": i, "b c": "x"}, None],
                    "pairs": [("k", {"x, ;{}()=": i}), ("n", None)],
                }
                for i in range(start, start + 6)
            ]
            return pa.Table.from_pylist(made, schema)

        properties = VECTORS | OFTEN | {"delta.columnMapping.mode": mode}
        tables.create(path, some(0), properties=properties, partition_by=["city"])
        tables.rename_column(path, "the id", "key column")
        tables.rename_column(path, "items.element.a", "first")
        tables.rename_column(path, "city", "town, or so")
        tables.add_columns(path, {"note": "string"})
        new = some(10).rename_columns(["key column", "town, or so", "items", "pairs"]).drop_columns(["items"])
        tables.append(path, new.append_column("note", pa.array(["n"] * 6)))
        tables.delete(path, "`key column` IN (1, 11)")
        tables.drop_columns(path, ["note", "pairs"])
        tables.add_columns(path, {"note": "int"})
        tables.update(path, {"note": "`key column` * 2"}, "`town, or so` = 'c0'")
        tables.optimize(path, purge=True)

    return write


def upgraded(path: str) -> None:
    """Features that are switched on one by one."""
    tables.create(path, rows(0, 10))
    tables.append(path, rows(10, 20))
    tables.set_properties(path, MAPPED | OFTEN)
    tables.rename_column(path, "n", "number")
    tables.set_properties(path, VECTORS)
    tables.delete(path, "id % 5 = 1")
    tables.set_properties(path, TRACKING)
    tables.update(path, {"number": "-1"}, "id = 12")
    tables.set_properties(path, TIMES | V2)
    tables.append(path, rows(30, 33).drop_columns(["n"]))
    tables.optimize(path, purge=True)
    tables.unset_properties(path, ["delta.checkpointPolicy"])
    tables.append(path, rows(40, 41).drop_columns(["n"]))


def partition_values(path: str) -> None:
    """Partitions by every type that can be one."""
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("city", pa.string()),
            ("ntz", pa.timestamp("us")),
            ("at", pa.timestamp("us", "UTC")),
            ("day", pa.date32()),
            ("price", pa.decimal128(9, 3)),
            ("f", pa.float64()),
            ("g", pa.float32()),
            ("raw", pa.binary()),
            ("flag", pa.bool_()),
            ("b", pa.int8()),
            ("s", pa.int16()),
            ("i", pa.int32()),
            ("l", pa.int64()),
        ]
    )
    first = {
        "ntz": datetime(2026, 1, 31, 12, 34, 56, 789012),
        "at": datetime(2026, 1, 31, 12, 34, 56, 789012, UTC),
        "day": date(1, 1, 1),
        "price": Decimal("1.500"),
        "f": float("nan"),
        "g": 0.1,
        "raw": b"\x01A",
        "flag": True,
        "b": -128,
        "s": -32768,
        "i": -(2**31),
        "l": -(2**63),
    }
    last = {
        "ntz": datetime(1969, 12, 31, 23, 59, 59, 999999),
        "at": datetime(1900, 1, 1, tzinfo=UTC),
        "day": date(9999, 12, 31),
        "price": Decimal("-0.001"),
        "f": -1.5e300,
        "g": float("inf"),
        "raw": "é".encode(),
        "flag": False,
        "b": 127,
        "s": 32767,
        "i": 2**31 - 1,
        "l": 2**63 - 1,
    }
    made = [{"id": i, "city": city, **first} for i, city in enumerate(ODD)]
    made += [{"id": 100, "city": "x", **last}, {"id": 101}]
    partitions = [name for name in schema.names if name != "id"]
    tables.create(path, pa.Table.from_pylist(made, schema), partition_by=partitions, properties=FEED | OFTEN | STRUCTS)
    tables.delete(path, "city = '50%' OR id = 3")
    tables.update(path, {"city": lakeport.lit("é ü"), "day": "date_add(day, 1)"}, "id = 5")
    tables.overwrite(path, pa.Table.from_pylist([{"id": 102}], schema), partitions="dynamic")


def types(path: str) -> None:
    """Every type at its bounds, and nested ones; a column of nulls."""
    point = pa.struct([("x", pa.int32()), ("deep", pa.struct([("tags", pa.list_(pa.string()))]))])
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("b", pa.int8()),
            ("s", pa.int16()),
            ("i", pa.int32()),
            ("f", pa.float32()),
            ("d", pa.float64()),
            ("small", pa.decimal128(9, 2)),
            ("middle", pa.decimal128(18, 9)),
            ("big", pa.decimal128(38, 10)),
            ("flag", pa.bool_()),
            ("t", pa.string()),
            ("raw", pa.binary()),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", "UTC")),
            ("ntz", pa.timestamp("us")),
            ("point", point),
            ("list", pa.list_(pa.struct([("x", pa.int32())]))),
            ("map", pa.map_(pa.int32(), pa.list_(pa.map_(pa.string(), pa.float64())))),
            ("nothing", pa.int32()),
        ]
    )
    least = {
        "id": 1,
        "b": -128,
        "s": -32768,
        "i": -(2**31),
        "f": float("-inf"),
        "d": float("nan"),
        "small": Decimal("-9999999.99"),
        "middle": Decimal("-123456789.123456789"),
        "big": Decimal("-1234567890123456789012345678.0123456789"),
        "flag": False,
        "t": "",
        "raw": b"",
        "day": date(1, 1, 1),
        "at": datetime(1, 1, 1, tzinfo=UTC),
        "ntz": datetime(1, 1, 1),
        "point": {"x": None, "deep": {"tags": []}},
        "list": [],
        "map": [],
    }
    most = {
        "id": 2,
        "b": 127,
        "s": 32767,
        "i": 2**31 - 1,
        "f": 3.4028234663852886e38,
        "d": -0.0,
        "small": Decimal("9999999.99"),
        "middle": Decimal("0.000000001"),
        "big": Decimal("9999999999999999999999999999.9999999999"),
        "flag": True,
        "t": "é\n\u0000😀" * 20,
        "raw": bytes(range(256)),
        "day": date(9999, 12, 31),
        "at": datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
        "ntz": datetime(9999, 12, 31, 23, 59, 59, 999999),
        "point": {"x": 7, "deep": {"tags": ["a", None, "ü"]}},
        "list": [{"x": 1}, None, {"x": None}],
        "map": [(1, [[("k", 1.5)], None, []]), (2, None)],
    }
    data = pa.Table.from_pylist([least, most, {"id": 3}, {"id": 4, "point": {"deep": None}}], schema)
    tables.create(path, data, properties=VECTORS | FEED | {"delta.checkpointInterval": "2"} | STRUCTS)
    tables.delete(path, "id = 3")
    tables.update(path, {"point.deep.tags": None, "big": "big / 2", "d": 0.5}, "id = 4")
    tables.append(path, data)
    tables.optimize(path)


def checked(path: str) -> None:
    """Generated columns, defaults, NOT NULL, an invariant and CHECK constraints."""
    long, text = PrimitiveType("long"), PrimitiveType("string")
    schema = StructType(
        (
            StructField("id", long, nullable=False),
            StructField("at", PrimitiveType("timestamp")),
            StructField("day", PrimitiveType("date"), metadata={"delta.generationExpression": "CAST(at AS DATE)"}),
            StructField("twice", long, metadata={"delta.generationExpression": "id * 2"}),
            StructField("kind", text, metadata={"CURRENT_DEFAULT": "'none'"}),
            StructField("n", PrimitiveType("integer")),
        )
    )
    tables.create(path, schema=schema, partition_by=["day"], properties=FEED | OFTEN)
    moments = [datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), datetime(2026, 1, 31, 12, tzinfo=UTC), None]
    first = pa.table({"id": [1, 2, 3], "at": pa.array(moments, pa.timestamp("us", "UTC"))})
    tables.append(path, first)
    tables.add_constraint(path, "positive", "id > 0 AND (n IS NULL OR n < 100)")
    tables.update(path, {"at": "TIMESTAMP '2027-05-05 00:00:00Z'", "n": "5"}, "id = 1")
    tables.set_default(path, "n", "42")
    tables.append(path, pa.table({"id": [4, 5], "kind": ["some", None]}))
    tables.set_comment(path, "kind", "what it is")
    tables.drop_not_null(path, "id")
    tables.drop_constraint(path, "positive")


def widened(path: str) -> None:
    schema = pa.schema(
        [
            ("id", pa.int32()),
            ("small", pa.int8()),
            ("f", pa.float32()),
            ("price", pa.decimal128(6, 2)),
            ("day", pa.date32()),
            ("inner", pa.struct([("a", pa.int16())])),
            ("list", pa.list_(pa.int16())),
            ("part", pa.int32()),
        ]
    )
    made = [
        {
            "id": i,
            "small": i,
            "f": i / 3,
            "price": Decimal("12.34"),
            "day": date(1500, 1, 1),
            "inner": {"a": i},
            "list": [i, None],
            "part": i % 2,
        }
        for i in range(10)
    ]
    properties = WIDENING | VECTORS | FEED | OFTEN | STRUCTS | {"delta.feature.timestampNtz": "supported"}
    tables.create(path, pa.Table.from_pylist(made, schema), partition_by=["part"], properties=properties)
    changes = {
        "id": "bigint",
        "small": "int",
        "f": "double",
        "price": "decimal(12,4)",
        "day": "timestamp_ntz",
        "inner.a": "int",
        "list.element": "bigint",
        "part": "bigint",
    }
    for column, wider in changes.items():
        tables.widen_column(path, column, wider)
    new = {
        "id": 2**40,
        "small": 100_000,
        "f": 0.1,
        "price": Decimal("12345678.1234"),
        "day": datetime(2026, 1, 1, 1, 2, 3, 400_000),
        "inner": {"a": 100_000},
        "list": [2**40],
        "part": 2**40,
    }
    tables.append(path, pa.Table.from_pylist([new], lakeport.scan(path).schema))
    tables.delete(path, "id = 3")
    tables.update(path, {"small": "small + 1000"}, "id = 4")
    tables.optimize(path, purge=True)


def variants(path: str) -> None:
    no_keys, one_key = b"\x01\x00\x00", b"\x01\x01\x00\x01a"
    pairs = [
        (no_keys, b"\x0c\x05"),  # 5
        (no_keys, b"\x09hi"),  # "hi"
        (no_keys, b"\x00"),  # null, which is not the same as no variant
        (no_keys, b"\x03\x00\x00"),  # []
        (one_key, b"\x02\x01\x00\x00\x02\x0c\x07"),  # {"a": 7}
    ]
    variant = pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary())])
    cells = [*({"metadata": metadata, "value": value} for metadata, value in pairs), None]
    schema = pa.schema([("id", pa.int64()), pa.field("v", variant, metadata=VARIANT_METADATA)])
    data = pa.Table.from_arrays([pa.array(range(6), pa.int64()), pa.array(cells, variant)], schema=schema)
    tables.create(path, data, properties=VECTORS | FEED | OFTEN)
    tables.append(path, data)
    tables.delete(path, "id = 1")
    tables.update(path, {"id": "id + 100"}, "id = 0")
    tables.optimize(path)


def clustered(path: str) -> None:
    tables.create(path, rows(0, 30), cluster_by=["id", "s.b"], properties=VECTORS | FEED | OFTEN | MAPPED)
    tables.append(path, rows(30, 60))
    tables.delete(path, "id % 9 = 1")
    tables.rename_column(path, "n", "m")
    tables.optimize(path)


def replaced(path: str) -> None:
    """Other columns under the same name, and other partitions."""
    tables.create(path, rows(0, 10), partition_by=["part"], properties=MAPPED | VECTORS | OFTEN)
    tables.append(path, pa.table({"id": [50], "late": [True]}), merge_schema=True)
    tables.overwrite(path, pa.table({"id": ["text", "is"], "other": [1.5, None]}), overwrite_schema=True)
    tables.append(path, pa.table({"id": ["it"], "other": [2.5]}))
    tables.overwrite(path, pa.table({"id": [1], "p": [2]}), overwrite_schema=True, partition_by=["p"])
    tables.delete(path, "id = 1")
    tables.append(path, pa.table({"id": [5, 6], "p": [1, None]}))


def cleaned_up(path: str) -> None:
    """Only a checkpoint tells of the first versions: their commits have expired."""
    tables.create(path, rows(0, 10), properties=VECTORS | FEED | TRACKING | {"delta.checkpointInterval": "4"})
    for start in range(10, 50, 10):
        tables.append(path, rows(start, start + 10))
    tables.delete(path, "id % 4 = 0")
    later = engine_over(Storage(), lambda: system_clock() + 40 * DAY)
    tables.append(path, rows(50, 60), engine=later)
    tables.delete(path, "id % 7 = 0", engine=later)
    tables.append(path, rows(60, 62), engine=later)
    tables.append(path, rows(62, 63))
    assert not (Path(path) / f"_delta_log/{0:020}.json").exists()


def no_rows(path: str) -> None:
    tables.create(path, schema=SCHEMA, partition_by=["part"], properties=OFTEN | STRUCTS)
    tables.append(path, rows(0, 0))
    tables.set_properties(path, {"about": "nothing"})
    tables.delete(path, "id = 1")
    tables.optimize(path)
    tables.add_columns(path, {"n2": "int"})
    tables.set_properties(path, {"about": "still nothing"})


SKIPPED_BY: dict[str, list[Any]] = {
    "text": [None, "", "a" * 31, "a" * 32, "a" * 33, "a" * 40 + "b", "😀" * 40, "é" * 33, "\U0010ffff" * 40],
    "at": [datetime(2026, 1, 1, 0, 0, 0, us, UTC) for us in (0, 1, 999, 1000, 1001, 999999)],
    "ntz": [datetime(1969, 12, 31, 23, 59, 59, us) for us in (0, 1, 999, 1000, 1001, 999999)],
    "d": [float("nan"), float("-inf"), float("inf"), -0.0, 0.0, 1e-300, None],
    "price": [Decimal("-0.00001"), Decimal("0.00001"), Decimal("12345678901234567890.12345"), None],
    "day": [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31), None],
}


def skipped_by(properties: Mapping[str, str]) -> Write:
    """A file for each value at which statistics are cut short, or mean something special."""
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("text", pa.string()),
            ("at", pa.timestamp("us", "UTC")),
            ("ntz", pa.timestamp("us")),
            ("d", pa.float64()),
            ("price", pa.decimal128(25, 5)),
            ("day", pa.date32()),
            ("s", pa.struct([("text", pa.string())])),
            ("file", pa.int32()),
        ]
    )

    def write(path: str) -> None:
        made: list[dict[str, Any]] = []
        for name, values in SKIPPED_BY.items():
            for value in values:
                nested = {"text": value} if name == "text" else None
                made.append({"id": len(made), name: value, "s": nested, "file": len(made)})
        for name, values in SKIPPED_BY.items():  # and two values to a file
            for value in values:
                made.append({"id": len(made), name: value, "file": -1 - len(made) // 2})
        tables.create(path, pa.Table.from_pylist(made, schema), partition_by=["file"], properties=properties)
        tables.delete(path, "id = 3 OR id = 45")
        tables.checkpoint(path)

    return write


TABLES: dict[str, Write] = {
    "plain": plain,
    "with_vectors": with_vectors,
    "with_feed": with_feed,
    "with_everything": with_everything,
    "tracked_by_id": tracked_by_id,
    "renamed_by_name": renamed("name"),
    "renamed_by_id": renamed("id"),
    "upgraded": upgraded,
    "partition_values": partition_values,
    "types": types,
    "checked": checked,
    "widened": widened,
    "variants": variants,
    "clustered": clustered,
    "replaced": replaced,
    "cleaned_up": cleaned_up,
    "no_rows": no_rows,
    "skipped": skipped_by(VECTORS),
    "skipped_by_structs": skipped_by(VECTORS | V2 | STRUCTS_ONLY),
}
