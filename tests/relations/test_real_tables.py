"""Real tables of other implementations: each way to read them returns the same rows, of every version and filter."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakeport
from lakeport.errors import MissingFileError, VersionNotFoundError
from lakeport.kernel.schema import PrimitiveType, StructField, quoted
from lakeport.relations.duckdb_compatibility import DuckDBMismatchError
from lakeport.relations.duckdb_view import view_text
from lakeport.testing.builder import read
from tests.acceptance.comparing import assert_same_rows, with_json_variants
from tests.acceptance.real_tables import (
    BY_NAME,
    CORPUS,
    LARGE,
    Entry,
    chosen,
    has_variants,
    is_shareable,
    path_of,
    table_of,
)
from tests.acceptance.skipping import case_id, comparisons, names_unknown_column, skipping_cases, value_of
from tests.relations.conditions import Condition
from tests.relations.ways import FILTERS, WAYS, Place, each, filtered_by, in_numbers

LITERALS = ("byte", "short", "integer", "long", "float", "double", "string", "boolean", "date", "timestamp")
COLUMNS = 10
"""So many of a table are filtered, the first ones."""


def assert_same(found: pa.Table, expected: pa.Table, where: str) -> None:
    if any("variant" in str(field.type) for field in expected.schema):
        found, expected = with_json_variants(found, expected.schema), with_json_variants(expected)
    assert_same_rows(in_numbers(found), in_numbers(expected), where)


def is_plain(entry: Entry) -> bool:
    """DuckDB has variants of its own, whose bytes may differ."""
    return is_shareable(entry) and not has_variants(entry)


def is_small(entry: Entry) -> bool:
    return is_plain(entry) and entry["expected"].get("rows", 0) <= LARGE


@cache
def rows_of(name: str) -> dict[int, pa.Table]:
    """The rows of each version that can be read. `tests/acceptance` compares them with those of other readers."""
    table = table_of(name)
    latest = table.latest_snapshot().version
    found = {}
    for version in range((BY_NAME[name].get("versions") or {}).get("first", latest), latest + 1):
        with suppress(VersionNotFoundError, MissingFileError):  # vacuumed, or its commits are cleaned up
            found[version] = read(table.snapshot_at_version(version))
    return found | {latest: read(table.latest_snapshot())}


@each(WAYS)
@chosen(is_small)
def test_the_rows_of_every_version_are_the_same(name: str, way: str) -> None:
    for version, expected in rows_of(name).items():
        assert_same(WAYS[way](Place(path_of(name), version).frame()), expected, f"version {version}")


@each(WAYS)
@chosen(lambda entry: is_plain(entry) and not is_small(entry))
def test_the_rows_of_a_large_table_are_the_same(name: str, way: str) -> None:
    rows = lakeport.scan(path_of(name))
    assert WAYS[way](rows).num_rows == rows.count()


def conditions_of(frame: lakeport.Frame, field: StructField) -> list[Condition]:
    """Conditions on a column by values that it has."""
    name, nulls = field.name, ((field.name, "null", None),)
    if not isinstance(field.type, PrimitiveType) or not (field.type.name in LITERALS or field.type.decimal):
        return [[nulls]]
    values = [value for value in in_python(frame.select(quoted(name)).limit(100)) if value is not None]
    if not values:
        return [[nulls]]
    first, middle = values[0], sorted(values)[len(values) // 2]
    others = ((name, "<", middle), (name, ">", middle))
    return [
        *([[(name, op, middle)]] for op in ("=", "<>", "<=")),
        [others],
        [((name, "in", first), *nulls), ((name, ">=", min(values)), *nulls)],
        [[(name, "not null", None)], [(name, "<>", first)]],
    ]


def in_python(rows: lakeport.Frame) -> list[Any]:
    """The values of a column; none that Python does not have, and no NaN, which queries compare in another way."""
    values = rows.to_arrow().column(0)
    if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
        return []
    try:
        return values.to_pylist()  # type: ignore[no-any-return]
    except (OverflowError, ValueError):
        return []


@cache
def expected_rows(name: str) -> list[tuple[Condition, pa.Table]]:
    """The conditions on a table, and the rows that Arrow finds."""
    frame, place = lakeport.scan(path_of(name)), Place(path_of(name))
    conditions = [found for field in frame.full_schema.fields[:COLUMNS] for found in conditions_of(frame, field)]
    return [(condition, filtered_by(WAYS["arrow"])(place, condition)) for condition in conditions]


@each(FILTERS)
@chosen(is_small)
def test_the_rows_that_a_filter_keeps_are_the_same(name: str, way: str) -> None:
    for condition, expected in expected_rows(name):
        assert_same(FILTERS[way](Place(path_of(name)), condition), expected, str(condition))


def upstream_filters() -> list[Entry]:
    return [
        case
        for case in skipping_cases()
        if case["predicate"] and not names_unknown_column(case) and is_plain(BY_NAME[case["table"]])
    ]


@pytest.mark.shared
@pytest.mark.each_value
@each(FILTERS)
@pytest.mark.parametrize("case", upstream_filters(), ids=case_id)
def test_the_rows_that_an_upstream_filter_keeps_are_the_same(case: Entry, way: str) -> None:
    operators = {"is null": "null", "is not null": "not null"}
    condition = [
        [(part["column"], operators.get(part["op"], part["op"]), value_of(part))]
        for part in comparisons(case["predicate"])
    ]
    place = Place(path_of(case["table"]), case.get("version"))
    expected = filtered_by(WAYS["arrow"])(place, condition)
    assert_same(FILTERS[way](place, condition), expected, case_id(case))


NEED_ARROW = {
    "delta33--widened": "stored as struct<a: int8> and read as struct<a: int32>",
    "delta44--iceberg-compatible": "are mapped",
    "delta44--mapped-by-id": "are mapped",
    "delta44--variants-nested": "variant",
    "delta44--void": "no type like",
}
"""Why DuckDB does not read the files of some tables itself."""


@pytest.mark.parametrize(("name", "reason"), NEED_ARROW.items())
def test_tables_that_duckdb_would_read_in_another_way_are_known(name: str, reason: str) -> None:
    with pytest.raises(DuckDBMismatchError, match=reason):
        view_text(lakeport.scan(path_of(name)))


def test_duckdb_reads_the_files_of_most_tables_itself() -> None:
    names = [name for name, entry in BY_NAME.items() if is_plain(entry) and path_of(name).startswith(str(CORPUS))]
    exact = [name for name in names if is_exact(lakeport.scan(path_of(name)))]
    assert len(exact) > 0.75 * len(names)


def is_exact(frame: lakeport.Frame) -> bool:
    try:
        view_text(frame)
    except DuckDBMismatchError:
        return False
    return True
