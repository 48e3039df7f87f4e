"""JSON into Arrow: pyarrow's parallel reader where it can, msgspec where it cannot.

pyarrow reads log files several times faster than any way through Python objects, but knows no maps, does not check
UTF-8 and gives up on a whole block for one odd value. So msgspec decides: what pyarrow refuses is read again by it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.json as pj

from lakeport.errors import CorruptTableError
from lakeport.kernel.engine import FileStatus, StorageClient

_BLOCK_SIZE = 1 << 20
_THREADS = max(2, pa.cpu_count())
_JSON_SPACE = b" \t\r\n"


class JsonFiles:
    """The `JsonHandler` of the default engine."""

    def __init__(self, storage: StorageClient) -> None:
        self._storage = storage

    def read_json_files(self, files: Sequence[FileStatus], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for file, data in zip(files, self._storage.read_many(files), strict=True):
            blocks = list(_blocks(data))
            if len(blocks) == 1:
                yield _parse_block(data, 0, len(data), schema, file.path)
            elif blocks:
                yield from _in_parallel([partial(_parse_block, data, *b, schema, file.path) for b in blocks])

    def parse_json(self, texts: pa.StringArray, schema: pa.Schema) -> pa.RecordBatch:
        decode = msgspec.json.Decoder(_row_type(pa.struct(list(schema)))).decode
        rows = [_decode_or_none(decode, text) for text in texts.to_pylist()]
        return pa.RecordBatch.from_arrays(_columns(rows, schema), schema=schema)


def _in_parallel(tasks: Sequence[Callable[[], pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """The results in order, with as many under way as there are threads."""
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="lakeport-json") as pool:
        ahead: deque[Future[pa.RecordBatch]] = deque()
        for task in tasks:
            ahead.append(pool.submit(task))
            if len(ahead) > _THREADS:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def _blocks(data: bytes) -> Iterator[tuple[int, int]]:
    """Cuts at line ends into blocks of about `_BLOCK_SIZE`; blocks without text are left out."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + _BLOCK_SIZE) + 1 or len(data)
        if not data[start : min(end, start + 64)].isspace() or data[start:end].strip(_JSON_SPACE):
            yield start, end
        start = end


def _parse_block(data: bytes, start: int, end: int, schema: pa.Schema, path: str) -> pa.RecordBatch:
    block = memoryview(data)[start:end]
    mentioned = schema if data.find(b"\\u", start, end) >= 0 else _mentioned(schema, data, start, end)
    if len(mentioned) and not any(_has_map(field.type) for field in mentioned):
        try:
            return _parse_with_arrow(block, mentioned, schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pass  # msgspec tells what is wrong and where, or reads it after all
    return _parse_with_msgspec(block, mentioned, schema, path, lambda: data.count(b"\n", 0, start))


def _mentioned(fields: Any, data: bytes, start: int, end: int) -> pa.Schema:
    """The fields whose names occur in the text at all: asking for fewer makes the reader faster."""
    found = []
    for field in fields:
        if data.find(b'"%s"' % field.name.encode(), start, end) < 0:
            continue
        if pa.types.is_struct(field.type):
            field = field.with_type(pa.struct(list(_mentioned(field.type, data, start, end))))
            if not field.type.num_fields:
                continue
        found.append(field)
    return pa.schema(found)


def _has_map(data_type: pa.DataType) -> bool:
    return pa.types.is_map(data_type) or any(_has_map(data_type.field(i).type) for i in range(data_type.num_fields))


def _parse_with_arrow(block: memoryview, mentioned: pa.Schema, schema: pa.Schema) -> pa.RecordBatch:
    table = pj.read_json(
        pa.BufferReader(block),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(block) + 1),
        parse_options=pj.ParseOptions(explicit_schema=mentioned, unexpected_field_behavior="ignore"),
    )
    table.validate(full=True)
    batch = table.combine_chunks().to_batches()[0]
    return pa.RecordBatch.from_arrays(
        [
            _widen(batch.column(f.name), f) if f.name in mentioned.names else pa.nulls(len(batch), f.type)
            for f in schema
        ],
        schema=schema,
    )


def _widen(array: pa.Array, field: pa.Field) -> pa.Array:
    """The array with null children for the fields that the text did not mention."""
    if array.type == field.type:
        return array
    names = [inner.name for inner in array.type]
    children = [
        _widen(array.field(names.index(inner.name)), inner) if inner.name in names else pa.nulls(len(array), inner.type)
        for inner in field.type
    ]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(field.type), mask=mask)


def _parse_with_msgspec(
    block: memoryview, mentioned: pa.Schema, schema: pa.Schema, path: str, lines_before: Callable[[], int]
) -> pa.RecordBatch:
    line_type = msgspec.defstruct(
        "Line", [(f"f{i}", Any, None) for i in range(len(mentioned))], rename=_numbered(mentioned.names)
    )
    decoder = msgspec.json.Decoder(line_type)
    try:
        lines = decoder.decode_lines(block)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        line, reason = _first_bad_line(block, decoder)
        raise CorruptTableError(
            f"line {lines_before() + line} of the log file is not valid: {reason or error}", path=path
        ) from error
    values = {name: [getattr(line, f"f{i}") for line in lines] for i, name in enumerate(mentioned.names)}
    arrays = []
    for field in schema:
        column = values.get(field.name)
        if column is None or not any(cell is not None for cell in column):
            arrays.append(pa.nulls(len(lines), field.type))
            continue
        try:
            arrays.append(array_of(column, field.type))
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError) as error:
            raise CorruptTableError(
                f"a {field.name!r} action in the log file is malformed: {error}", path=path
            ) from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _numbered(names: list[str]) -> dict[str, str]:
    """Attributes are numbered, because a key can be any text."""
    return {f"f{i}": name for i, name in enumerate(names)}


def _first_bad_line(block: memoryview, decoder: msgspec.json.Decoder[Any]) -> tuple[int, str]:
    for number, line in enumerate(bytes(block).split(b"\n"), start=1):
        try:
            if line.strip(_JSON_SPACE):
                decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return number, str(error)
    return 1, ""


def array_of(values: list[Any], data_type: pa.DataType) -> pa.Array:
    """An Arrow array of Python values. (`pa.array` would import pandas, where it is installed, only to ask it.)"""
    return pa.scalar(values, pa.list_(data_type)).values


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
        if pa.types.is_struct(field.type):
            fields.append((f"f{i}", _row_type(field.type) | None, None))
        elif pa.types.is_decimal(field.type):
            fields.append((f"f{i}", msgspec.Raw, msgspec.Raw(b"null")))  # a float would lose digits
        else:
            fields.append((f"f{i}", Any, None))
    return msgspec.defstruct("Row", fields, rename=_numbered([f.name for f in struct]), gc=False)


def _columns(rows: list[Any], fields: Any) -> list[pa.Array]:
    return [_column([None if r is None else getattr(r, f"f{i}") for r in rows], f) for i, f in enumerate(fields)]


def _column(values: list[Any], field: pa.Field) -> pa.Array:
    if pa.types.is_struct(field.type):
        return pa.StructArray.from_arrays(_columns(values, field.type), fields=list(field.type))
    convert = _cell_converter(field.type)
    return array_of([None if value is None else convert(value) for value in values], field.type)


def _cell_converter(data_type: pa.DataType) -> Callable[[Any], Any]:
    """A function from a JSON value to a value of the type, or to None if it does not fit."""
    types = pa.types
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
