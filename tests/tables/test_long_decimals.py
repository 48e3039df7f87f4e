"""Decimals of up to 38 digits keep each of them, whatever the program's own decimal context is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal, getcontext, localcontext
from pathlib import Path

import pyarrow as pa
import pytest

import lakeport
from lakeport import tables
from lakeport.engine import default_engine
from lakeport.kernel.definition import parse_interval
from lakeport.kernel.expressions import bind, col, parse_filter
from lakeport.kernel.expressions.tree import same
from lakeport.kernel.schema import PrimitiveType, StructField
from lakeport.testing.builder import TableBuilder, protocol, struct

DIGITS = "1234567890123456789012345678.9012345678"
LONG = Decimal(DIGITS)
NEXT = Decimal("1234567890123456789012345678.9012345679")
DEFAULT = getcontext().prec


@pytest.fixture(params=[DEFAULT, 5], ids=["default context", "five digits"], autouse=True)
def context(request: pytest.FixtureRequest) -> Iterator[None]:
    with localcontext() as own:
        own.prec = request.param
        yield


def negated() -> Decimal:
    return LONG.copy_negate()


@pytest.mark.parametrize(
    "text",
    [
        f"-{DIGITS}",
        f"- {DIGITS}",
        f"-({DIGITS})",
        f"-{DIGITS}BD",
        f"CAST(-{DIGITS} AS DECIMAL(38,10))",
        f"-CAST({DIGITS} AS DECIMAL(38,10))",
        f"-CAST('{DIGITS}' AS DECIMAL(38,10))",
    ],
)
def test_a_minus_keeps_all_digits(text: str) -> None:
    schema = struct(x="decimal(38,10)")
    assert same(bind(parse_filter(f"x = {text}"), schema), bind(col("x") == negated(), schema))
    assert same(bind(parse_filter(f"x IN ({text})"), schema), bind(col("x").isin([negated()]), schema))


def test_a_value_beyond_the_type_is_below_the_least() -> None:
    schema = struct(x="decimal(38,0)")
    least = Decimal("-" + "9" * 38)
    for beyond in (Decimal("-1E38"), Decimal("-1E39")):
        assert same(bind(col("x") > beyond, schema), bind(col("x") >= least, schema))


def test_rows_are_read_deleted_updated_and_merged_by_a_long_negative_decimal(tmp_path: Path) -> None:
    values = [negated(), NEXT.copy_negate(), LONG]
    rows = pa.table({"x": pa.array(values, pa.decimal128(38, 10)), "n": [0, 0, 0]})
    path = str(tmp_path / "t")
    tables.create(path, rows)

    def numbers() -> dict[Decimal, int]:
        found = lakeport.scan(path).to_arrow()
        return dict(zip(found["x"].to_pylist(), found["n"].to_pylist(), strict=True))

    assert lakeport.scan(path).where(f"x = -{DIGITS}").to_arrow()["x"].to_pylist() == [negated()]
    tables.update(path, {"n": "1"}, f"x = -{DIGITS}")
    assert numbers() == {negated(): 1, NEXT.copy_negate(): 0, LONG: 0}
    tables.update(path, {"x": f"-{DIGITS}"}, f"x = {DIGITS}")
    assert sorted(lakeport.scan(path).to_arrow()["x"].to_pylist()) == sorted([negated(), negated(), values[1]])
    merge = tables.merge(path, pa.table({"k": [1]}), f"target.x = -{DIGITS}").when_matched_update({"n": "7"})
    merge.execute()
    assert numbers() == {negated(): 7, NEXT.copy_negate(): 0}
    tables.delete(path, f"x = -{DIGITS}")
    assert numbers() == {NEXT.copy_negate(): 0}


def test_partitions_and_generated_columns_keep_all_digits(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    generated = StructField("g", PrimitiveType("decimal(38,10)"), metadata={"delta.generationExpression": f"-{DIGITS}"})
    tables.create(path, schema=struct(generated, p="decimal(38,10)", n="long"), partition_by=["p"])
    kind = pa.decimal128(38, 10)
    tables.append(path, pa.table({"p": pa.array([negated(), LONG], kind), "n": [1, 2]}))
    assert lakeport.scan(path).where(f"p = -{DIGITS}").to_arrow()["n"].to_pylist() == [1]
    assert lakeport.scan(path).where(f"p < {DIGITS}").to_arrow()["p"].to_pylist() == [negated()]
    assert lakeport.scan(path).to_arrow()["g"].to_pylist() == [negated()] * 2


def test_intervals_are_exact() -> None:
    assert parse_interval("interval 123456.789 seconds") == 123_456_789


def test_bounds_keep_all_digits_where_rows_are_counted(tmp_path: Path) -> None:
    table = TableBuilder(
        default_engine(),
        str(tmp_path / "table"),
        struct(x="decimal(38,10)"),
        properties={"delta.enableDeletionVectors": "true"},
        protocol=protocol(features=["deletionVectors"]),
    )
    bounds = f'"minValues":{{"x":{DIGITS}}},"maxValues":{{"x":{NEXT}}}'
    table.create(table.add({"x": [LONG, NEXT]}, stats=f"{{{bounds}}}"))
    tables.delete(table.root, f"x = {NEXT}")
    commit = Path(table.root, "_delta_log", f"{1:020}.json").read_text()
    (add,) = (json.loads(line)["add"] for line in commit.splitlines() if '"add"' in line)
    assert bounds in add["stats"]
    assert lakeport.scan(table.root).where(f"x = {DIGITS}").count() == 1


@pytest.mark.parametrize("text", ["1.2345678901234568e27", "1.2345678901234567e27"])
def test_bounds_that_were_doubles_on_the_way_lose_no_row(tmp_path: Path, text: str) -> None:
    table = TableBuilder(default_engine(), str(tmp_path / "table"), struct(x="decimal(38,10)"))
    stats = f'{{"numRecords":1,"minValues":{{"x":{text}}},"maxValues":{{"x":{text}}}}}'
    table.create(table.add({"x": [LONG]}, stats=stats))
    assert lakeport.scan(table.root).where(f"x = {DIGITS}").count() == 1
