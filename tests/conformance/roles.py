"""The tables that the suite reads, each written for the part that it plays.

    python -m tests.conformance.roles DIRECTORY

writes them, for a server that is to be tested elsewhere: share them under any names, with their history but for
`latest_only`, `later` from version 2 on, and name them in a profile (see `target`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from lakeport import tables

FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}

DAYS = [date(2026, 1, 1), date(2026, 1, 2), None]
"""The partitions of `plain`."""
VALUES: dict[str, list[object]] = {
    "bool": [False, True, None],
    "int": [-7, 7, None],
    "long": [-(2**40), 2**40, None],
    "string": ["apple", "pear", None],
    "date": [date(2020, 2, 29), date(2021, 4, 29), None],
    "float": [-0.5, 1.5, None],
    "double": [-2.25, 1e100, None],
    "timestamp": [datetime(2020, 1, 1, tzinfo=UTC), datetime(2021, 6, 1, 12, 30, tzinfo=UTC), None],
}
"""The columns of `typed` and `typed_partitions`, by the value type of JSON predicates: one file for each position."""
_ARROW = {
    "bool": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "string": pa.string(),
    "date": pa.date32(),
    "float": pa.float32(),
    "double": pa.float64(),
    "timestamp": pa.timestamp("us", "UTC"),
}


def numbers(start: int, count: int) -> pa.Table:
    """Rows with an `id` that counts, a `name` and an `amount`."""
    ids = range(start, start + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [f"name {i}" for i in ids],
            "amount": pa.array([i * 1.5 for i in ids], pa.float64()),
        }
    )


def dated(start: int, count: int) -> pa.Table:
    days = pa.array([DAYS[i % 3] for i in range(start, start + count)], pa.date32())
    return numbers(start, count).append_column("day", days)


def plain(target: str) -> None:
    """Partitioned by `day`, without any feature: versions 0 to 2, 3 files each."""
    tables.create(target, dated(0, 6), partition_by=["day"], name="plain", description="what every client reads")
    tables.append(target, dated(6, 6))
    tables.append(target, dated(12, 6))


def typed(target: str) -> None:
    """A column of each type that JSON predicates know, with statistics."""
    for row in range(3):
        data = _typed_rows(row)
        tables.append(target, data) if row else tables.create(target, data)


def typed_partitions(target: str) -> None:
    """The columns of `typed`, all of them partition columns."""
    for row in range(3):
        data = _typed_rows(row).append_column("id", pa.array([row], pa.int64()))
        tables.append(target, data) if row else tables.create(target, data, partition_by=list(VALUES))


def _typed_rows(row: int) -> pa.Table:
    return pa.table({name: pa.array([values[row]], _ARROW[name]) for name, values in VALUES.items()})


def nested(target: str) -> None:
    """Every kind of type that a schema knows."""
    inner = pa.struct([pa.field("d", pa.int32(), nullable=False)])
    schema = pa.schema(
        [
            pa.field("a", pa.int32(), nullable=False),
            pa.field("b", inner),
            pa.field("c", pa.list_(pa.field("element", pa.int32(), nullable=False))),
            pa.field("e", pa.list_(inner)),
            pa.field("f", pa.map_(pa.string(), pa.string())),
            pa.field("small", pa.int16()),
            pa.field("tiny", pa.int8()),
            pa.field("price", pa.decimal128(38, 10)),
            pa.field("raw", pa.binary()),
        ]
    )
    row = {"a": 1, "b": {"d": 2}, "c": [3, 4], "e": [{"d": 5}, None], "f": [("k", "v"), ("n", None)]}
    row |= {"small": -3, "tiny": 4, "price": Decimal("12.5"), "raw": b"\0\xff"}
    tables.create(target, pa.Table.from_pylist([row], schema=schema))
    tables.set_comment(target, "a", "this is a comment")


def stream(target: str) -> None:
    """Without any feature: appends, commits of metadata alone, a delete, and rows that are only rearranged.

    0 and 1 append; 2 comments on a column; 3 adds a column; 4 appends; 5 deletes files; 6 rearranges; 7 appends."""
    tables.create(target, numbers(0, 4))
    tables.append(target, numbers(4, 4))
    tables.set_comment(target, "name", "a word on it")
    tables.add_columns(target, {"flag": "boolean"})
    tables.append(target, numbers(8, 4))
    tables.delete(target, "id < 4")
    tables.optimize(target)
    tables.append(target, numbers(12, 4))


def feed(target: str) -> None:
    """With a change data feed, partitioned by `day`: 1 updates, 2 deletes rows, 3 appends, 4 is of metadata alone,
    5 deletes files whole, 6 appends."""
    tables.create(target, dated(0, 6), partition_by=["day"], properties=FEED)
    tables.update(target, {"name": "'renamed'"}, "id = 0 OR id = 1")
    tables.delete(target, "id = 3")
    tables.append(target, dated(6, 3))
    tables.set_comment(target, "name", "a word on it")
    tables.delete(target, "day = DATE '2026-01-02'")
    tables.append(target, dated(9, 3))


def feed_later(target: str) -> None:
    """Its changes are recorded from version 2 on."""
    tables.create(target, numbers(0, 3))
    tables.append(target, numbers(3, 3))
    tables.set_properties(target, FEED)
    tables.append(target, numbers(6, 3))


def vectors(target: str) -> None:
    """With deletion vectors and a change data feed; 1 and 3 delete rows of one file, 2 appends, 4 updates."""
    tables.create(target, numbers(0, 10), properties=FEED | VECTORS)
    tables.delete(target, "id IN (1, 3)")
    tables.append(target, numbers(10, 5))
    tables.delete(target, "id = 5")
    tables.update(target, {"amount": "0.0"}, "id = 12")


def vectors_unused(target: str) -> None:
    """Deletion vectors are allowed, and there are none."""
    tables.create(target, numbers(0, 3), properties=VECTORS)


def mapped(target: str) -> None:
    """With column mapping and a change data feed, partitioned by `day`; 1 renames `amount` to `Sum total`."""
    tables.create(target, dated(0, 6), partition_by=["day"], properties=FEED | MAPPED)
    tables.rename_column(target, "amount", "Sum total")
    renamed = dated(6, 6).rename_columns(["id", "name", "Sum total", "day"])
    tables.append(target, renamed)
    tables.delete(target, "day = DATE '2026-01-01'")


def empty(target: str) -> None:
    tables.create(target, schema="id long, day date", partition_by=["day"])


ROLES: dict[str, Callable[[str], None]] = {
    "plain": plain,
    "latest_only": plain,
    "typed": typed,
    "typed_partitions": typed_partitions,
    "nested": nested,
    "stream": stream,
    "later": stream,
    "feed": feed,
    "feed_later": feed_later,
    "vectors": vectors,
    "vectors_unused": vectors_unused,
    "mapped": mapped,
    "empty": empty,
}
READABLE_AS_PARQUET = (
    "plain", "typed", "typed_partitions", "nested", "stream", "feed", "feed_later", "vectors_unused", "empty",
)  # fmt: skip


def write_roles(directory: Path) -> dict[str, str]:
    """The locations of new tables by their roles."""
    for role, write in ROLES.items():
        write(str(directory / role))
    return {role: str(directory / role) for role in ROLES}


if __name__ == "__main__":
    for written, location in write_roles(Path(sys.argv[1])).items():
        print(f"{written}: {location}")
