"""JSON into Arrow: log files by line, statistics by text.

Lines become batches by msgspec through typed objects, or by pyarrow if all lines are alike. pyarrow's reader is fast
and releases the GIL, but it has no maps and cannot report unrequested keys. So it gets exactly the keys of the first
line and rejects any others: its result is then complete. Lines that it rejects are read by msgspec, which alone decides
what is valid.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from io import BytesIO
from itertools import groupby
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.json as pj
from pyarrow import types

from lakeport.engine.json.cells import parse_cells
from lakeport.errors import CorruptTableError
from lakeport.kernel.engine import FILE_INDEX, FileStatus, StorageClient
from lakeport.kernel.values import array_of, from_numpy, repeat_all, take_or_null

_BLOCK_SIZE = 1 << 19
_SMALL_FILE = 1 << 22
"""Files up to this size are prefetched whole; larger ones are read in blocks to save memory."""
_SMALL_BLOCK = 1 << 16
"""Blocks up to this size are not worth a second thread."""
_BLOCKS_AHEAD = 2


@dataclass(frozen=True, slots=True)
class _Piece:
    """Whole lines of a file."""

    text: bytes
    path: str
    file: int
    """The index of the file."""
    start: int = 0
    """Their offset in the file."""


_Block = list[_Piece]
"""Lines to parse together: a piece of any size, or small ones of several files."""


class JsonFiles:
    """The `JsonHandler` of the default engine."""

    def __init__(self, storage: StorageClient) -> None:
        self._storage = storage

    def read_json_files(self, files: Sequence[FileStatus], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        place = schema.get_field_index(FILE_INDEX.name)
        stored = schema if place < 0 else schema.remove(place)
        for block, batch in self._read_blocks(self._blocks(files, together=place >= 0), stored):
            yield batch if place < 0 else batch.add_column(place, FILE_INDEX, _file_indices(block, batch))

    def _read_blocks(self, blocks: Iterator[_Block], schema: pa.Schema) -> Iterator[tuple[_Block, pa.RecordBatch]]:
        arrow, lines = ArrowLines(schema), MsgspecLines(schema)
        ahead: deque[tuple[_Block, Future[pa.RecordBatch | None]]] = deque()

        def finish(block: _Block, attempt: Future[pa.RecordBatch | None]) -> tuple[_Block, pa.RecordBatch]:
            parsed = attempt.result()
            return block, self._read(block[0], lines) if parsed is None else arrow.shape(parsed)

        for block in blocks:
            if len(block) == 1 and (ahead or len(block[0].text) > _SMALL_BLOCK):
                ahead.append((block, _pool().submit(arrow.parse, block[0].text)))
                if len(ahead) > _BLOCKS_AHEAD:
                    yield finish(*ahead.popleft())
                continue
            while ahead:
                yield finish(*ahead.popleft())
            if len(block) > 1 and (batch := lines.read_exactly(_lines(block))) is not None:
                yield block, batch
            else:
                yield from (([piece], self._read(piece, lines)) for piece in block)
        while ahead:
            yield finish(*ahead.popleft())

    def parse_json(self, texts: pa.StringArray, schema: pa.Schema) -> pa.RecordBatch:
        return parse_cells(texts, schema)

    def _read(self, piece: _Piece, lines: MsgspecLines) -> pa.RecordBatch:
        try:
            return lines.read(piece.text)
        except READING_ERRORS as error:
            raise self._bad_line(piece, lines, error) from error

    def _blocks(self, files: Sequence[FileStatus], *, together: bool) -> Iterator[_Block]:
        """The pieces of the files, each on its own, or small ones together."""
        small: _Block = []
        size = 0
        for piece in self._pieces(files):
            stands_alone = not together or len(piece.text) > _SMALL_BLOCK
            if small and (stands_alone or size + len(piece.text) > _BLOCK_SIZE):
                yield small
                small, size = [], 0
            if stands_alone:
                yield [piece]
            else:
                small.append(piece)
                size += len(piece.text)
        if small:
            yield small

    def _pieces(self, files: Sequence[FileStatus]) -> Iterator[_Piece]:
        for is_small, group in groupby(enumerate(files), lambda item: item[1].size <= _SMALL_FILE):
            run = list(group)
            if is_small:
                texts = self._storage.read_many([file for _, file in run])
                for (index, file), data in zip(run, texts, strict=True):
                    yield from _cut(data, file.path, index)
            else:
                for index, file in run:
                    with self._storage.open_input(file) as source:
                        yield from _cut_stream(source, file.path, index)

    def _bad_line(self, piece: _Piece, lines: MsgspecLines, error: Exception) -> CorruptTableError:
        """Find the bad line by trying them one by one."""
        for number, line in enumerate(piece.text.split(b"\n"), start=1):
            try:
                if line.strip():
                    lines.decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeError, RecursionError) as reason:
                number += self._storage.read(piece.path, 0, piece.start).count(b"\n")
                return CorruptTableError(f"line {number} of the log file is not valid: {reason}", path=piece.path)
        return CorruptTableError(f"the log file is not valid: {error}", path=piece.path)


@cache
def _pool() -> ThreadPoolExecutor:
    # One for the process: most log files have few blocks, and starting threads takes longer than parsing.
    return ThreadPoolExecutor(_BLOCKS_AHEAD, thread_name_prefix="lakeport-json")


def _lines(block: _Block) -> bytes:
    """The lines of a block, each with its end, which the last line of a file may lack."""
    texts = [piece.text for piece in block]
    return b"".join(text if text.endswith(b"\n") else text + b"\n" for text in texts)


def _file_indices(block: _Block, batch: pa.RecordBatch) -> pa.Array:
    """The index of each row's file. In a block of several pieces, every line is a row."""
    counts = [batch.num_rows]
    if len(block) > 1:
        counts = [piece.text.count(b"\n") + (not piece.text.endswith(b"\n")) for piece in block]
    return from_numpy(np.repeat([piece.file for piece in block], counts))


def _cut(text: bytes, path: str, file: int) -> Iterator[_Piece]:
    if len(text) > _BLOCK_SIZE:
        yield from _cut_stream(BytesIO(text), path, file)
    elif text and not text.isspace():
        yield _Piece(text, path, file)


def _cut_stream(source: Any, path: str, file: int) -> Iterator[_Piece]:
    """Split at line ends into pieces of about `_BLOCK_SIZE`, or of one longer line; skips blank ones."""
    start, size = 0, _BLOCK_SIZE
    while data := source.read(size):
        end = data.rfind(b"\n") + 1
        if not end and len(data) == size:  # a longer line
            source.seek(start)
            size *= 2
            continue
        text = data[:end] if end else data  # the last line may be unterminated
        if not text.isspace():
            yield _Piece(text, path, file, start)
        start, size = start + len(text), _BLOCK_SIZE
        if len(text) < len(data):
            source.seek(start)


class ArrowLines:
    """Reads lines that have only keys of the first one."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def parse(self, text: bytes) -> pa.RecordBatch | None:
        """The lines with the keys they have; None for lines that are not alike or not valid."""
        try:
            first = msgspec.json.decode(text[: text.find(b"\n")])
            if not isinstance(first, dict):
                return None
            table = pj.read_json(
                pa.BufferReader(text),
                read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
                parse_options=pj.ParseOptions(
                    explicit_schema=pa.schema(_keys_of(first, self._schema)), unexpected_field_behavior="error"
                ),
                memory_pool=pa.system_memory_pool(),  # packs small, long-lived data tighter than Arrow's own pool
            )
            table.validate(full=True)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, _UnlikelyError):
            return None
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return None
        return table.to_batches()[0]  # one block is one batch

    def shape(self, parsed: pa.RecordBatch) -> pa.RecordBatch:
        """The result of `parse` as a batch of the schema."""
        rows = parsed.to_struct_array()
        columns = [_shape(_child(rows, field.name), field, len(rows)) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


class _UnlikelyError(Exception):
    """The first line has something that cannot be described to pyarrow's reader."""


def _keys_of(sample: dict[str, Any], wanted: Iterable[pa.Field]) -> list[pa.Field]:
    """The keys of an object as fields: in the wanted types, or those of their values."""
    by_name = {field.name: field.type for field in wanted}
    return [pa.field(key, _type_for(value, by_name.get(key))) for key, value in sample.items()]


def _type_for(value: Any, wanted: pa.DataType | None) -> pa.DataType:
    if isinstance(value, dict):
        if wanted is not None and types.is_map(wanted):
            return pa.struct([pa.field(key, wanted.item_type) for key in value])
        if wanted is not None and not types.is_struct(wanted):
            raise _UnlikelyError
        return pa.struct(_keys_of(value, wanted or ()))
    if wanted is not None:
        return wanted
    for kind, data_type in _TYPES.items():
        if isinstance(value, kind):
            return data_type
    raise _UnlikelyError


_TYPES = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string(), type(None): pa.null()}


def _child(array: pa.StructArray, name: str) -> pa.Array | None:
    index = array.type.get_field_index(name)
    return array.field(index) if index >= 0 else None


def _shape(array: pa.Array | None, field: pa.Field, length: int) -> pa.Array:
    """A column in its wanted form: null children for keys that no line has, objects as maps."""
    if array is None or types.is_null(array.type):
        return pa.nulls(length, field.type)
    if types.is_map(field.type):
        return _as_maps(array, field.type)
    if not types.is_struct(field.type):
        return array
    children = [_shape(_child(array, inner.name), inner, length) for inner in field.type]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(field.type), mask=mask)


def _as_maps(objects: pa.StructArray, data_type: pa.DataType) -> pa.MapArray:
    """Objects with the same keys as maps; a key that an object lacks gets a null value."""
    keys = array_of([field.name for field in objects.type], data_type.key_type)
    width, length = len(keys), len(objects)
    values = [objects.field(i) for i in range(width)]
    if width == 1:
        items = values[0]
    else:
        by_object = np.arange(width * length).reshape(width, length).T.ravel()
        items = pa.concat_arrays([pa.nulls(0, data_type.item_type), *values]).take(from_numpy(by_object))
    entries = pa.StructArray.from_arrays(
        [repeat_all(keys, length), items], fields=[data_type.key_field, data_type.item_field]
    )
    offsets = pa.py_buffer((np.arange(length + 1) * width).astype(np.int32))
    validity = objects.is_valid().buffers()[1] if objects.null_count else None
    return pa.Array.from_buffers(data_type, length, [validity, offsets], children=[entries])


READING_ERRORS = (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError)
"""What `MsgspecLines.read` raises for invalid lines."""


class MsgspecLines:
    """msgspec's decoder, through objects with exactly the schema's fields."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.decoder = _decoder(schema)

    def read(self, text: bytes) -> pa.RecordBatch:
        """A batch of the schema. Raises `READING_ERRORS`."""
        return self._batch(self.decoder.decode_lines(text))

    def read_exactly(self, text: bytes) -> pa.RecordBatch | None:
        """A batch with a row for each line; None if a line is not exactly one object."""
        try:
            return self._batch(list(map(self.decoder.decode, text.split(b"\n")[:-1])))
        except READING_ERRORS:
            return None

    def _batch(self, rows: Sequence[Any]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(_columns(rows, self._schema), schema=self._schema)


@lru_cache(maxsize=32)
def _decoder(schema: pa.Schema) -> msgspec.json.Decoder[Any]:
    """Cached: building a decoder takes longer than reading a small commit."""
    return msgspec.json.Decoder(_object_type(schema))


def _object_type(fields: Iterable[pa.Field]) -> Any:
    """A msgspec type with an attribute per field, numbered because keys can be any text."""
    described, names = [], {}
    for i, field in enumerate(fields):
        described.append((f"f{i}", _value_type(field.type) | None, None))
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


def _columns(objects: Sequence[Any], fields: Iterable[pa.Field]) -> list[pa.Array]:
    return [_column(list(map(attrgetter(f"f{i}"), objects)), field) for i, field in enumerate(fields)]


def _column(values: Sequence[Any], field: pa.Field) -> pa.Array:
    missing = values.count(None)
    if missing == len(values):
        return pa.nulls(len(values), field.type)
    if not types.is_struct(field.type):
        return array_of(values, field.type, trusted=True)
    present = values if not missing else [value for value in values if value is not None]
    dense = _struct(_columns(present, field.type), field.type, len(present))
    if not missing:
        return dense
    is_present = np.fromiter((value is not None for value in values), np.bool_, len(values))
    return take_or_null(dense, np.where(is_present, np.cumsum(is_present) - 1, -1))


def _struct(children: list[pa.Array], data_type: pa.DataType, length: int) -> pa.StructArray:
    return pa.Array.from_buffers(data_type, length, [None], children=children)
