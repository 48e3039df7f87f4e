"""Real tables of other implementations: DuckDB and Polars return the rows that Arrow does."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

import lakeport
from lakeport.errors import MissingFileError, VersionNotFoundError
from lakeport.kernel.expressions import Expression, col
from lakeport.kernel.schema import PrimitiveType, StructField, quoted
from lakeport.relations.duckdb_view import view_text
from lakeport.relations.footers import InexactError
from tests.acceptance.comparing import assert_same_rows, with_json_variants
from tests.acceptance.real_tables import BY_NAME, CORPUS, LARGE, chosen, has_variants, is_shareable, path_of
from tests.relations.ways import WAYS, in_numbers

VERSIONS = 5
"""So many versions of a table are read, the newest ones."""
LITERALS = ("byte", "short", "integer", "long", "float", "double", "string", "boolean", "date", "timestamp")


def assert_same(rows: lakeport.Frame, way: str, where: str = "") -> None:
    expected = rows.to_arrow()
    if expected.num_rows > LARGE:
        assert rows.to_duckdb().count("*").fetchall() == [(expected.num_rows,)]
        return
    found = WAYS[way](rows)
    if any("variant" in str(field.type) for field in rows.selected):
        found, expected = with_json_variants(found, expected.schema), with_json_variants(expected)
    assert_same_rows(in_numbers(found), in_numbers(expected), f"{where} by {way}")


def is_plain(entry: dict[str, Any]) -> bool:
    """DuckDB has variants of its own, whose bytes may differ."""
    return is_shareable(entry) and not has_variants(entry)


@pytest.mark.parametrize("way", WAYS)
@chosen(is_plain)
def test_the_rows_of_the_newest_versions_are_the_same(name: str, way: str) -> None:
    latest = lakeport.scan(path_of(name))
    first = (BY_NAME[name].get("versions") or {}).get("first", latest.version)
    for version in range(max(first, latest.version - VERSIONS), latest.version + 1):
        with suppress(VersionNotFoundError, MissingFileError):  # vacuumed, or its commits are cleaned up
            assert_same(latest.at(version=version), way, f"version {version}")
    assert_same(latest, way)


def filters_of(frame: lakeport.Frame, field: StructField) -> list[Expression]:
    """Filters on a column by a value that it has."""
    column = col(quoted(field.name))
    if not isinstance(field.type, PrimitiveType) or not (field.type.name in LITERALS or field.type.decimal):
        return [column.is_null()]
    values = [v for v in in_python(frame.select(quoted(field.name)).limit(100)) if v is not None]
    if not values:
        return [column.is_null()]
    middle = sorted(values)[len(values) // 2]
    same, others = column.isin([values[0], middle]), (column < middle) | (column > middle)
    return [column == middle, ~(column == middle), column <= middle, others, ~same, column.is_not_null() & same]


def in_python(rows: lakeport.Frame) -> list[Any]:
    try:
        return rows.to_arrow().column(0).to_pylist()
    except (OverflowError, ValueError):  # years that Python's dates do not have
        return []


@pytest.mark.parametrize("way", WAYS)
@chosen(lambda entry: is_plain(entry) and entry["expected"].get("rows", 0) <= LARGE)
def test_the_rows_that_a_filter_keeps_are_the_same(name: str, way: str) -> None:
    frame = lakeport.scan(path_of(name))
    for field in frame.full_schema.fields[:10]:
        for condition in filters_of(frame, field):
            narrowed = frame.where(condition)
            assert_same(narrowed, way, f"{field.name}: {narrowed.explain()}")


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
    with pytest.raises(InexactError, match=reason):
        view_text(lakeport.scan(path_of(name)))


def test_duckdb_reads_the_files_of_most_tables_itself() -> None:
    names = [name for name, entry in BY_NAME.items() if is_plain(entry) and path_of(name).startswith(str(CORPUS))]
    exact = [name for name in names if is_exact(lakeport.scan(path_of(name)))]
    assert len(exact) > 0.75 * len(names)


def is_exact(frame: lakeport.Frame) -> bool:
    try:
        view_text(frame)
    except InexactError:
        return False
    return True
