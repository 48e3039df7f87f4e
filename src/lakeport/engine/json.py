"""JSON into Arrow with msgspec: only what the schema asks for is decoded, straight into typed columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache, partial
from io import BytesIO
from itertools import groupby
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import types

from lakeport.errors import CorruptTableError
from lakeport.kernel.arrays import array_of, from_numpy
from lakeport.kernel.engine import JSON_TEXT, FileStatus, StorageClient

_BLOCK_SIZE = 1 << 20
_SMALL_FILE = 4 * _BLOCK_SIZE
"""Files up to this size are fetched whole and ahead; larger ones are read block by block, for the memory's sake."""


@dataclass(frozen=True, slots=True)
class _Block:
    """Whole lines of a file."""

    text: bytes
    path: str
    start: int
    """Where in the file they begin."""


class JsonFiles:
    """The `JsonHandler` of the default engine."""

    def __init__(self, storage: StorageClient) -> None:
        self._storage = storage

    def read_json_files(self, files: Sequence[FileStatus], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        decoder = _line_decoder(schema)
        for block in self._blocks(files):
            try:
                lines = decoder.decode_lines(block.text)
                yield pa.RecordBatch.from_arrays(_columns(lines, schema), schema=schema)
            except (msgspec.MsgspecError, UnicodeError, TypeError, ValueError, OverflowError) as error:
                raise self._bad_line(block, decoder, error) from error

    def parse_json(self, texts: pa.StringArray, schema: pa.Schema) -> pa.RecordBatch:
        decode = msgspec.json.Decoder(_row_type(pa.struct(list(schema)))).decode
        rows = [_decode_or_none(decode, text) for text in texts.to_pylist()]
        return pa.RecordBatch.from_arrays(_cells(rows, schema), schema=schema)

    def _blocks(self, files: Sequence[FileStatus]) -> Iterator[_Block]:
        for is_small, group in groupby(files, lambda file: file.size <= _SMALL_FILE):
            run = list(group)
            if is_small:
                for file, data in zip(run, self._storage.read_many(run), strict=True):
                    yield from _cut(BytesIO(data), file.path)
            else:
                for file in run:
                    with self._storage.open_input(file) as source:
                        yield from _cut(source, file.path)

    def _bad_line(self, block: _Block, decoder: msgspec.json.Decoder[Any], error: Exception) -> CorruptTableError:
        """Says which line it is by trying them one by one."""
        for number, line in enumerate(block.text.split(b"\n"), start=1):
            try:
                if line.strip():
                    decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeError) as reason:
                number += self._storage.read(block.path, 0, block.start).count(b"\n")
                return CorruptTableError(f"line {number} of the log file is not valid: {reason}", path=block.path)
        return CorruptTableError(f"the log file is not valid: {error}", path=block.path)


def _cut(source: Any, path: str) -> Iterator[_Block]:
    """Cuts at line ends into blocks of about `_BLOCK_SIZE`; blocks without text are left out."""
    rest, start = b"", 0
    while data := source.read(_BLOCK_SIZE):
        end = data.rfind(b"\n") + 1
        if not end:
            rest += data
            continue
        text, rest = rest + data[:end], data[end:]
        if not text.isspace():
            yield _Block(text, path, start)
        start += len(text)
    if rest and not rest.isspace():
        yield _Block(rest, path, start)


# Lines: from Arrow types to msgspec types, and from decoded objects to columns


@lru_cache(maxsize=32)
def _line_decoder(schema: pa.Schema) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_object_type(schema))


def _object_type(fields: Iterable[pa.Field]) -> Any:
    """A msgspec type with an attribute for each field; they are numbered, because a key can be any text."""
    described, names = [], {}
    for i, field in enumerate(fields):
        raw = JSON_TEXT in (field.metadata or {})
        described.append((f"f{i}", msgspec.Raw, msgspec.Raw()) if raw else (f"f{i}", _value_type(field.type) | None, None))
        names[f"f{i}"] = field.name
    return msgspec.defstruct("Object", described, rename=names, gc=False)


def _value_type(data_type: pa.DataType) -> Any:
    if types.is_struct(data_type):
        return _object_type(data_type)
    if types.is_list(data_type):
        return list[_value_type(data_type.value_type) | None]  # type: ignore[misc]  # made at run time
    if types.is_map(data_type):
        return dict[str, _value_type(data_type.item_type) | None]  # type: ignore[misc]  # made at run time
    if types.is_integer(data_type):
        return int
    if types.is_boolean(data_type):
        return bool
    if types.is_floating(data_type):
        return float
    return str


def _columns(objects: list[Any], fields: Iterable[pa.Field]) -> list[pa.Array]:
    return [_column([getattr(o, f"f{i}") for o in objects], field) for i, field in enumerate(fields)]


def _column(values: list[Any], field: pa.Field) -> pa.Array:
    missing = values.count(None)
    if missing == len(values):
        return pa.nulls(len(values), field.type)
    if JSON_TEXT in (field.metadata or {}):
        texts = [bytes(raw).decode() for raw in values]
        return array_of([None if text in ("", "null") else text for text in texts], field.type)
    if not types.is_struct(field.type):
        return array_of(values, field.type)
    present = values if not missing else [value for value in values if value is not None]
    dense = _struct(_columns(present, field.type), field.type, len(present))
    return dense if not missing else dense.take(_expansion(values))


def _struct(children: list[pa.Array], data_type: pa.DataType, length: int) -> pa.StructArray:
    return pa.Array.from_buffers(data_type, length, [None], children=children)


def _expansion(values: list[Any]) -> pa.Array:
    """For each value its number among those that are not None."""
    present = np.fromiter((value is not None for value in values), np.bool_, len(values))
    numbers = from_numpy(np.cumsum(present) - 1)
    return pa.Array.from_buffers(pa.int64(), len(values), [from_numpy(present).buffers()[1], numbers.buffers()[1]])


# Single texts: statistics


def _decode_or_none(decode: Callable[[str], Any], text: str | None) -> Any:
    if text is None:
        return None
    try:
        return decode(text)
    except (msgspec.MsgspecError, UnicodeError):
        return None


def _row_type(struct: pa.DataType) -> Any:
    """A msgspec type for the objects of one level: only what is asked for is decoded."""
    fields = []
    for i, field in enumerate(struct):
        if types.is_struct(field.type):
            fields.append((f"f{i}", _row_type(field.type) | None, None))
        elif types.is_decimal(field.type):
            fields.append((f"f{i}", msgspec.Raw, msgspec.Raw(b"null")))  # a float would lose digits
        else:
            fields.append((f"f{i}", Any, None))
    return msgspec.defstruct("Row", fields, rename={f"f{i}": field.name for i, field in enumerate(struct)}, gc=False)


def _cells(rows: list[Any], fields: Any) -> list[pa.Array]:
    return [_cell_column([None if r is None else getattr(r, f"f{i}") for r in rows], f) for i, f in enumerate(fields)]


def _cell_column(values: list[Any], field: pa.Field) -> pa.Array:
    if types.is_struct(field.type):
        return pa.StructArray.from_arrays(_cells(values, field.type), fields=list(field.type))
    convert = _cell_converter(field.type)
    return array_of([None if value is None else convert(value) for value in values], field.type)


def _cell_converter(data_type: pa.DataType) -> Callable[[Any], Any]:
    """A function from a JSON value to a value of the type, or to None if it does not fit."""
    if types.is_integer(data_type):
        return partial(_integer, limit=1 << (data_type.bit_width - 1))
    if types.is_floating(data_type):
        return _float
    if types.is_decimal(data_type):
        return partial(_decimal, scale=data_type.scale, limit=Decimal(10) ** (data_type.precision - data_type.scale))
    if types.is_boolean(data_type):
        return lambda value: value if isinstance(value, bool) else None
    if types.is_string(data_type):
        return lambda value: value if isinstance(value, str) else None
    if types.is_date(data_type):
        return _date
    if types.is_timestamp(data_type):
        return partial(_timestamp, zoned=data_type.tz is not None)
    return lambda value: None


def _integer(value: Any, limit: int) -> int | None:
    return value if type(value) is int and -limit <= value < limit else None


def _float(value: Any) -> float | None:
    if isinstance(value, str):
        return {"Infinity": math.inf, "-Infinity": -math.inf}.get(value)
    return float(value) if type(value) in (int, float) and abs(value) < 1e308 else None


def _decimal(value: msgspec.Raw, scale: int, limit: Decimal) -> Decimal | None:
    try:
        number = Decimal(bytes(value).decode().strip('"'))
        exact = number.quantize(Decimal(1).scaleb(-scale))
    except (InvalidOperation, UnicodeError):
        return None
    return exact if exact == number and abs(exact) < limit else None


def _date(value: Any) -> date | None:
    try:
        return date.fromisoformat(value[:10])
    except (ValueError, TypeError):
        return None


def _timestamp(value: Any, zoned: bool) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value)
        if not zoned:
            return moment.replace(tzinfo=None)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, TypeError, OverflowError):
        return None
