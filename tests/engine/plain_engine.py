"""A fourth engine: JSON and expressions in plain Python, value by value; the default engine does the rest.

It shows that these handlers can be swapped: nothing here uses msgspec, pyarrow's JSON reader or its compute functions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types

from lakeport.engine import ComposedEngine, default_engine
from lakeport.errors import CorruptTableError
from lakeport.kernel.engine import FILE_INDEX, FileStatus, StorageClient
from tests.engine.plain_expressions import RowExpressions


def plain_engine() -> ComposedEngine:
    engine = default_engine()
    return replace(engine, json=PlainJson(engine.storage), expressions=RowExpressions())


class PlainJson:
    """A `JsonHandler` on Python's `json`."""

    def __init__(self, storage: StorageClient) -> None:
        self._storage = storage

    def read_json_files(self, files: Sequence[FileStatus], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        stored = pa.schema([field for field in schema if field.name != FILE_INDEX.name])
        for index, file in enumerate(files):
            rows = [
                {FILE_INDEX.name: index, **_read_line(line, stored, number, file.path)}
                for number, line in enumerate(self._storage.read(file.path).split(b"\n"), start=1)
                if line.strip()
            ]
            yield pa.RecordBatch.from_pylist(rows, schema=schema)

    def parse_json(self, texts: pa.StringArray, schema: pa.Schema) -> pa.RecordBatch:
        row = pa.struct(list(schema))
        return pa.RecordBatch.from_pylist([_cell(_parsed(text), row) for text in texts.to_pylist()], schema=schema)


def _read_line(line: bytes, schema: pa.Schema, number: int, path: str) -> Any:
    try:
        return _fitting(json.loads(line), pa.struct(list(schema)))
    except ValueError as error:
        raise CorruptTableError(f"line {number} is not valid: {error}", path=path) from error


def _fitting(value: Any, kind: pa.DataType) -> Any:
    """The value as Arrow takes it. Raises `ValueError` if it does not fit."""
    if value is None:
        return None
    if types.is_struct(kind) and isinstance(value, dict):
        return {field.name: _fitting(value.get(field.name), field.type) for field in kind}
    if types.is_map(kind) and isinstance(value, dict):
        return [(key, _fitting(item, kind.item_type)) for key, item in value.items()]
    if types.is_list(kind) and isinstance(value, list):
        return [_fitting(item, kind.value_type) for item in value]
    fits = {
        str: types.is_string(kind),
        bool: types.is_boolean(kind),
        int: types.is_integer(kind) and _in_range(value, kind),
    }
    if not fits.get(type(value), False):
        raise ValueError(f"{value!r} is not of type {kind}")
    return value


def _in_range(value: Any, kind: pa.DataType) -> bool:
    return isinstance(value, int) and -(1 << kind.bit_width - 1) <= value < 1 << kind.bit_width - 1


def _parsed(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text, parse_float=Decimal)
    except ValueError:
        return None


def _cell(value: Any, kind: pa.DataType) -> Any:
    """The value of a statistic; None if it does not fit. A struct always is one, so that its fields can be null."""
    if types.is_struct(kind):
        inner = value if isinstance(value, dict) else {}
        return {field.name: _cell(inner.get(field.name), field.type) for field in kind}
    try:
        return _number(value, kind) if types.is_floating(kind) or types.is_decimal(kind) else _plain(value, kind)
    except (ValueError, ArithmeticError, TypeError):
        return None


def _plain(value: Any, kind: pa.DataType) -> Any:
    if types.is_date(kind):
        return date.fromisoformat(value[:10])
    if types.is_timestamp(kind):
        moment = datetime.fromisoformat(value)
        if kind.tz is None:
            return moment.replace(tzinfo=None)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    return _fitting(value, kind)


def _number(value: Any, kind: pa.DataType) -> Any:
    if types.is_floating(kind):
        number = float(value) if value in ("Infinity", "-Infinity") or not isinstance(value, str) else None
        is_overflow = not isinstance(value, str) and number in (float("inf"), float("-inf"))
        return None if is_overflow else number
    exact = Decimal(value).quantize(Decimal(1).scaleb(-kind.scale))
    return exact if exact == Decimal(value) and len(exact.as_tuple().digits) <= kind.precision else None
