"""Filters over what is worked out of columns: whatever is skipped, the rows are right, and only they can fail."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

import lakeport
from lakeport import Frame, col
from lakeport.engine import memory_engine
from lakeport.errors import InvalidDataError, InvalidFilterError
from lakeport.kernel.expressions import Call, Expression
from lakeport.testing.builder import Action, TableBuilder, protocol, struct
from tests.rows import ids

DAYS = [datetime(2026, 1, 1 + i, tzinfo=UTC) for i in range(20)]


def table(*, with_vectors: bool = False) -> tuple[TableBuilder, list[Action]]:
    """Four files of five rows each: `id` counts from 0 to 19, `half` is a half of it, `part` is the number of the
    file."""
    schema = struct(id="long", name="string", half="decimal(10,1)", at="timestamp", part="integer")
    features = protocol(features=["deletionVectors"] if with_vectors else [])
    built = TableBuilder(memory_engine(), "memory:///t", schema, ["part"], protocol=features)
    built.create()
    adds = []
    for part in range(4):
        ids = range(part * 5, part * 5 + 5)
        data = {"id": list(ids), "name": [f"n{i}" if i % 3 else None for i in ids], "at": [DAYS[i] for i in ids]}
        adds.append(built.add(data | {"half": [Decimal(i) / 2 for i in ids]}, {"part": str(part)}, row_group_size=2))
        built.commit(adds[-1])
    return built, adds


def frame(built: TableBuilder) -> Frame:
    return lakeport.scan(built.root, engine=built.engine)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("id * 2 > 35", [18, 19]),
        ("NOT id * 2 <= 35", [18, 19]),
        ("half * 2 = 3", [3]),
        ("id % 7 = 0", [0, 7, 14]),
        ("id % 7 = 0 AND id > 5", [7, 14]),
        ("id + part = 17", []),
        ("id + part IN (1, 18)", [1, 15]),
        ("part * 5 = id", [0, 5, 10, 15]),
        ("part * 2 = 4", [10, 11, 12, 13, 14]),
        ("part + 1 > 3 OR id + 1 < 2", [0, 15, 16, 17, 18, 19]),
        ("upper(name) = 'N5'", [5]),
        ("upper(name) LIKE 'N1%' AND length(name) = 2", [1]),
        ("coalesce(name, 'none') = 'none' AND id < 4", [0, 3]),
        ("name || 'x' IS NULL AND part = 3", [15, 18]),
        ("CASE WHEN id > 10 THEN part = 3 ELSE id = 0 END", [0, 15, 16, 17, 18, 19]),
        ("CAST(at AS DATE) = '2026-01-08'", [7]),
        ("day(at) BETWEEN 3 AND 4", [2, 3]),
        ("at + INTERVAL 1 DAY > TIMESTAMP '2026-01-20 00:00:00'", [19]),
        ("id <> 0 AND 10 / id >= 5", [1, 2]),
        ("10 / (id + 1) >= 5", [0, 1]),
        (col("id") * col("half") == 8, [4]),
        (Call("year", (col("at"),)) == 2026, list(range(20))),
    ],
)
def test_rows_are_filtered_by_values(condition: str | Expression, expected: list[int]) -> None:
    built, _ = table()
    assert ids(frame(built).where(condition)) == expected
    assert frame(built).where(condition).count() == len(expected)


def test_what_plain_columns_decide_is_still_skipped() -> None:
    built, _ = table()
    assert len(frame(built).where("id % 2 = 0").files()) == 4
    assert len(frame(built).where("id % 2 = 0 AND id > 12").files()) == 2
    assert len(frame(built).where("part * 2 = 4").files()) == 1
    assert len(frame(built).where("part + 1 > 2 AND upper(name) = 'X'").files()) == 2
    assert len(frame(built).where("id > 2 + 15").files()) == 4


def test_a_literal_that_is_cast_is_still_a_literal_to_file_skipping() -> None:
    built, _ = table()
    assert len(frame(built).where("id >= 15L").files()) == 1
    assert len(frame(built).where("at >= CAST('2026-01-16' AS TIMESTAMP)").files()) == 1


def test_the_current_time_is_a_literal_to_file_skipping() -> None:
    built, _ = table()
    noon = int(DAYS[6].timestamp() * 1000)
    view = lakeport.scan(built.root, engine=replace(built.engine, clock=lambda: noon))  # type: ignore[type-var]  # the engine is composed
    assert ids(view.where("at < current_timestamp()")) == [0, 1, 2, 3, 4, 5]
    assert len(view.where("at < now()").files()) == 2
    assert ids(view.where("CAST(at AS DATE) = current_date() - 1")) == [5]


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("current_timestamp() > '2020-01-01'", True),
        ("'2020-01-01 12:00:00' > current_timestamp()", False),
        ("current_date() >= '2026-01-07'", True),
        ("current_date() <=> '2026-01-07'", True),
        ("current_date() BETWEEN '2026-01-01' AND '2026-01-06'", False),
        ("current_date() IN ('2025-01-07', '2026-01-07')", True),
        ("current_date() NOT IN ('2026-01-07')", False),
        ("current_date() + 1 > '2026-01-07'", True),
        ("current_timestamp() + INTERVAL 1 DAY > '2026-01-08'", True),
        ("current_timestamp() - INTERVAL 1 MONTH > '2026-01-01'", False),
        ("date_trunc('month', now()) = '2026-01-01'", True),
        ("coalesce(current_date(), '2020-01-01') = '2026-01-07'", True),
        ("coalesce(NULL, current_date(), '2020-01-01') > '2026-01-06'", True),
        ("CASE WHEN id < 0 THEN current_date() ELSE '2020-01-01' END < '2020-01-02'", True),
        ("CASE current_date() WHEN '2026-01-07' THEN TRUE ELSE FALSE END", True),
        ("nullif(current_date(), '2026-01-07') IS NULL", True),
        ("greatest(current_date(), '2030-01-01') = '2030-01-01'", True),
        ("CAST('2026-01-31' AS DATE) > '2026-01-30'", True),
        ("TIMESTAMP '2026-01-31 00:00:00' = '2026-01-31'", True),
        ("current_date() < '12345-01-01'", True),
    ],
)
def test_text_beside_a_date_or_a_time_is_read_as_one(condition: str, holds: bool) -> None:
    built, _ = table()
    noon = int(DAYS[6].timestamp() * 1000) + 12 * 3_600_000
    view = lakeport.scan(built.root, engine=replace(built.engine, clock=lambda: noon))  # type: ignore[type-var]  # the engine is composed
    assert ids(view.where(condition)) == (list(range(20)) if holds else [])


def test_a_row_that_is_deleted_cannot_fail() -> None:
    built, adds = table(with_vectors=True)
    with pytest.raises(InvalidDataError, match="division by zero"):
        ids(frame(built).where("10 / id >= 5"))
    built.commit(*built.delete(adds[0], [0]))
    assert ids(frame(built).where("10 / id >= 5")) == [1, 2]


def test_a_file_that_is_skipped_cannot_fail() -> None:
    built, _ = table()
    assert ids(frame(built).where("part > 0 AND 10 / id >= 2")) == [5]


def test_a_value_alone_is_no_filter() -> None:
    built, _ = table()
    with pytest.raises(InvalidFilterError, match="id \\+ 1 of type long is not a condition"):
        frame(built).where("id + 1").to_arrow()
