"""Rows as other readers returned them, compared with ours: as multisets, with variants as JSON text."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
from collections import Counter
from datetime import datetime
from decimal import Decimal
from functools import cache
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakeport.kernel.schema import is_variant_field
from lakeport.kernel.variant import format_variant_json
from tests.acceptance.real_tables import BY_NAME, LARGE, Entry, has_variants
from tests.conftest import SHARED

SHOWN = 5
"""Rows of each kind in a failure."""


def assert_same_rows(found: pa.Table, expected: pa.Table, where: str = "") -> None:
    """The rows are the same, in any order. `where` is the table and the way that it was read, if the test's name does
    not have them."""
    prefix = f"{where}: " if where else ""
    assert found.column_names == expected.column_names, f"{prefix}other columns"
    if expected.num_rows > LARGE:  # flat tables of numbers, which Arrow sorts faster than Python
        order = [(name, "ascending") for name in expected.column_names]
        assert found.cast(expected.schema).sort_by(order).equals(expected.sort_by(order)), f"{prefix}other rows"
        return
    ours, theirs = Counter(canonical(found)), Counter(canonical(expected))
    if ours != theirs:
        raise AssertionError(f"{prefix}{_difference(ours, theirs)}")


def _difference(found: Counter[str], expected: Counter[str]) -> str:
    missing, unexpected = expected - found, found - expected
    lines = [f"{found.total()} rows found, {expected.total()} expected"]
    for title, rows in (("expected and not found", missing), ("found and not expected", unexpected)):
        if rows:
            more = rows.total() - SHOWN
            lines += [f"  {title}:", *(f"    {row}" for row in list(rows.elements())[:SHOWN])]
            lines += [f"    and {more} more"] if more > 0 else []
    return "\n".join(lines)


def assert_expected(name: str, found: pa.Table, expectation: Entry, way: str = "") -> None:
    """The rows are those of an expectation: a Parquet file, or the hash of the rows with variants as structs."""
    where = " by ".join(filter(None, [name, way]))
    if "parquet" in expectation:
        plain = with_json_variants(found) if has_variants(BY_NAME[name]) else found
        assert_same_rows(plain, pq.read_table(expectation["parquet"]), where)
    else:
        assert found.num_rows == expectation["rows"], where
        hashed = hashlib.sha256("\n".join(_hashed_form().rows(found)).encode()).hexdigest()
        assert hashed == expectation["sha256"], where


@cache
def _hashed_form() -> ModuleType:
    """The form of rows whose hashes are in the manifest of ``../shared``."""
    spec = importlib.util.spec_from_file_location("canon", SHARED / "tables" / "tables" / "canon.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def canonical(table: pa.Table) -> list[str]:
    """Each row as text, the same for values that are equal: time zones, units and widths of numbers do not matter."""
    columns = [[_plain(value) for value in _in_microseconds(column).to_pylist()] for column in table.columns]
    rows = zip(*columns, strict=True) if columns else [()] * table.num_rows
    return sorted(repr(dict(zip(table.column_names, row, strict=True))) for row in rows)


def _in_microseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Python's datetime has no nanoseconds."""
    kind = column.type
    if not pa.types.is_timestamp(kind) or kind.unit != "ns":
        return column
    return column.cast(pa.timestamp("us", kind.tz), safe=False)


def _plain(value: Any) -> Any:
    match value:
        case float():
            return "NaN" if math.isnan(value) else value
        case Decimal():
            return format(abs(value) if value == 0 else value, "f")
        case datetime(tzinfo=None):
            return value.isoformat()
        case datetime():
            return (value - value.utcoffset()).replace(tzinfo=None).isoformat()  # type: ignore[operator]
        case dict():
            return {key: _plain(inner) for key, inner in value.items()}
        case list() if value and all(isinstance(item, tuple) for item in value):  # a map
            return sorted(((_plain(key), _plain(inner)) for key, inner in value), key=repr)
        case list():
            return [_plain(item) for item in value]
    return value


def with_json_variants(table: pa.Table, schema: pa.Schema | None = None) -> pa.Table:
    """The table with variants as JSON text with sorted keys. A table that has them as JSON text needs the schema that
    says where they are."""
    columns = [
        column if (as_text := _json_type(field)) == field.type else _json_column(column, field, as_text)
        for column, field in zip(table.columns, schema or table.schema, strict=True)
    ]
    return pa.table(columns, names=table.schema.names)


def _json_column(column: pa.ChunkedArray, field: pa.Field, as_text: pa.DataType) -> pa.Array:
    return pa.array([_as_json(value, field) for value in column.to_pylist()], as_text)


def _as_json(value: Any, field: pa.Field) -> Any:
    if value is None:
        return None
    if is_variant_field(field):
        text = value if isinstance(value, str) else format_variant_json(value["metadata"], value["value"])
        return json.dumps(json.loads(text), sort_keys=True)
    if pa.types.is_struct(field.type):
        return {child.name: _as_json(value[child.name], child) for child in field.type}
    if pa.types.is_list(field.type):
        return [_as_json(item, field.type.value_field) for item in value]
    if pa.types.is_map(field.type):
        return [(_as_json(key, field.type.key_field), _as_json(item, field.type.item_field)) for key, item in value]
    return value


def _json_type(field: pa.Field) -> pa.DataType:
    if is_variant_field(field):
        return pa.string()
    if pa.types.is_struct(field.type):
        return pa.struct([(child.name, _json_type(child)) for child in field.type])
    if pa.types.is_list(field.type):
        return pa.list_(_json_type(field.type.value_field))
    if pa.types.is_map(field.type):
        return pa.map_(_json_type(field.type.key_field), _json_type(field.type.item_field))
    return field.type
