"""Readers for the files that `create`, `append` and others take: batch by batch, in bounded memory."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from io import BufferedReader
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from lakeport.cli.files.formats import Format
from lakeport.cli.files.parsing import infer_fields, infer_from_texts, json_column, text_column
from lakeport.cli.progress import Expected
from lakeport.errors import InvalidDataError
from lakeport.kernel.data_files import make_batch
from lakeport.kernel.schema import (
    DEFAULT,
    GENERATION_EXPRESSION,
    PrimitiveType,
    StructField,
    StructType,
    arrow_schema,
    is_variant,
    types_in,
)

BinaryFile: TypeAlias = "BufferedReader[Any]"

_BLOCK_BYTES = 4 << 20
"""How much text is read at once; the types of a new table are inferred from the first block."""
_BATCH_ROWS = 1 << 16
_ARROW_FILE = b"ARROW1"
_GUESSED = "; the types were inferred from the first rows: set them with --schema"


@dataclass(frozen=True)
class Reader:
    """An open file: its columns, its rows, and their number if the file has it."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    expected_rows: Expected = lambda: None


def open_reader(kind: Format, file: BinaryFile, name: str, types: StructType | None) -> Reader:
    """Read `file`, which stays open. Columns of text files take their types from `types`; others are inferred.

    Both this and the batches raise `InvalidDataError` with `name`, and with the row or line if known."""
    try:
        return _READERS[kind](file, name, types)
    except pa.ArrowException as error:
        raise _unreadable(kind, name, error) from error


def _unreadable(kind: Format, name: str, error: Exception) -> InvalidDataError:
    return InvalidDataError(f"{name} cannot be read as {kind}: {str(error).splitlines()[0]}")


# --- columnar files ----------------------------------------------------------------------------------------------


def _open_parquet(file: BinaryFile, name: str, types: StructType | None) -> Reader:
    opened = pa.parquet.ParquetFile(file.raw if isinstance(file.raw, pa.NativeFile) else file)
    batches = _named_errors(opened.iter_batches(_BATCH_ROWS), Format.parquet, name)
    return Reader(opened.schema_arrow.remove_metadata(), batches, lambda: int(opened.metadata.num_rows))


def _open_arrow(file: BinaryFile, name: str, types: StructType | None) -> Reader:
    if file.peek(len(_ARROW_FILE))[: len(_ARROW_FILE)] == _ARROW_FILE:
        file.read(8)  # a file is a stream between two magic numbers
    opened = pa.ipc.open_stream(file)
    return Reader(opened.schema.remove_metadata(), _named_errors(iter(opened), Format.arrow, name))


def _named_errors(batches: Iterator[pa.RecordBatch], kind: Format, name: str) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except pa.ArrowException as error:
        raise _unreadable(kind, name, error) from error


# --- CSV ---------------------------------------------------------------------------------------------------------


def _open_csv(file: BinaryFile, name: str, types: StructType | None) -> Reader:
    names = _header(file, name)
    texts = _texts(file, names, name)
    first = next(texts, None)
    fields = [
        (types and types.find(column)) or StructField(column, _type_of(first, index))
        for index, column in enumerate(names)
    ]
    return Reader(_nullable(fields), _csv_batches(first, texts, fields, name, types is None))


def _header(file: BinaryFile, name: str) -> list[str]:
    """Read the names in the first line, and leave the rest in the file."""
    try:
        lines = iter(lambda: file.readline().decode("utf-8-sig"), "")
        return next(csv.reader(lines, strict=True))
    except (StopIteration, csv.Error, UnicodeError):
        raise InvalidDataError(f"{name} has no header: the first line of CSV must name the columns") from None


def _texts(file: BinaryFile, names: list[str], name: str) -> Iterator[pa.RecordBatch]:
    if not file.peek(1):
        return
    bad: list[pa.csv.InvalidRow] = []
    try:
        yield from _open_texts(file, names, bad)
    except pa.ArrowInvalid as error:
        if not bad:
            raise _unreadable(Format.csv, name, error) from error
        row = bad[0]
        raise InvalidDataError(
            f"row {row.number} of {name}: expected {row.expected_columns} values, found {row.actual_columns}"
        ) from error


def _open_texts(file: BinaryFile, names: list[str], bad: list[pa.csv.InvalidRow]) -> pa.csv.CSVStreamingReader:
    """Read all columns as strings; empty text without quotes is null. A row with too many or too few values is added
    to `bad` and stops the reader."""

    def refuse(row: pa.csv.InvalidRow) -> str:
        bad.append(row)
        return "error"

    return pa.csv.open_csv(
        file,
        # Rows are numbered only with a single thread, which is no slower: parsing is not the bottleneck.
        read_options=pa.csv.ReadOptions(column_names=names, block_size=_BLOCK_BYTES, use_threads=False),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=refuse),
        convert_options=pa.csv.ConvertOptions(
            column_types={column: pa.string() for column in names},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _type_of(batch: pa.RecordBatch | None, index: int) -> PrimitiveType:
    return PrimitiveType("string") if batch is None else infer_from_texts(batch.column(index))


def _csv_batches(
    first: pa.RecordBatch | None, texts: Iterator[pa.RecordBatch], fields: list[StructField], name: str, guessed: bool
) -> Iterator[pa.RecordBatch]:
    schema, rows, batch = _nullable(fields), 0, first
    while batch is not None:
        try:
            columns = [text_column(column, field) for column, field in zip(batch.columns, fields, strict=True)]
        except InvalidDataError as error:
            raise _misplaced(error, f"row {rows + (error.row or 0) + 1} of {name}", guessed) from error
        yield make_batch(columns, schema, batch.num_rows)
        rows += batch.num_rows
        batch = next(texts, None)


# --- JSON lines --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Lines:
    """Objects and their line numbers."""

    objects: list[dict[str, Any]]
    numbers: list[int]


def _open_jsonl(file: BinaryFile, name: str, types: StructType | None) -> Reader:
    # Only decimals and variants need more digits than a float has; floats are parsed much faster.
    exact = types is not None and any(
        isinstance(t, PrimitiveType) and (t.decimal or is_variant(t)) for t in types_in(types)
    )
    blocks = _json_blocks(file, name, Decimal if exact else None)
    first = next(blocks, None)
    fields = _json_fields(first.objects if first else [], types)
    return Reader(_nullable(fields), _json_batches(first, blocks, fields, name, types is None))


def _json_fields(objects: list[dict[str, Any]], types: StructType | None) -> list[StructField]:
    """The columns to read: the keys of the first objects, and the table's other columns, whose keys may appear later.
    Columns with a default or a generation expression are added only if given."""
    if types is None:
        return infer_fields(objects)
    keys = dict.fromkeys(key for row in objects for key in row)
    known = {field.name: key for key in keys if (field := types.find(key))}
    given = [StructField(known[f.name], f.type) for f in types if f.name in known]
    later = [f for f in types if f.name not in known and not _fills_itself(f)]
    return [*given, *later, *infer_fields([{k: row[k] for k in row if not types.find(k)} for row in objects])]


def _fills_itself(field: StructField) -> bool:
    return any(key in field.metadata for key in (DEFAULT, GENERATION_EXPRESSION))


def _json_blocks(file: BinaryFile, name: str, float_hook: Any) -> Iterator[_Lines]:
    decoder = msgspec.json.Decoder(float_hook=float_hook)
    read = 0
    while lines := file.readlines(_BLOCK_BYTES):
        numbered = [(read + index, line) for index, line in enumerate(lines, start=1) if not line.isspace()]
        read += len(lines)
        try:
            objects = decoder.decode_lines(b"".join(line for _, line in numbered))
            if len(objects) != len(numbered) or not all(type(item) is dict for item in objects):
                raise msgspec.DecodeError("expected one object per line")
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise _bad_line(numbered, name, decoder) from error
        yield _Lines(objects, [number for number, _ in numbered])


def _bad_line(numbered: list[tuple[int, bytes]], name: str, decoder: msgspec.json.Decoder[Any]) -> InvalidDataError:
    for number, line in numbered:
        try:
            if type(decoder.decode(line)) is not dict:
                return InvalidDataError(f"line {number} of {name}: expected a JSON object in {{}}")
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            return InvalidDataError(f"line {number} of {name} is not valid JSON: {error}")
    return InvalidDataError(f"{name} must have one object per line")


def _json_batches(
    first: _Lines | None, blocks: Iterator[_Lines], fields: list[StructField], name: str, guessed: bool
) -> Iterator[pa.RecordBatch]:
    schema, names, block = _nullable(fields), {field.name for field in fields}, first
    while block is not None:
        _refuse_unknown(block, names, name, guessed)
        try:
            columns = [json_column([row.get(f.name) for row in block.objects], f) for f in fields]
        except InvalidDataError as error:
            raise _misplaced(error, f"line {block.numbers[error.row or 0]} of {name}", guessed) from error
        yield make_batch(columns, schema, len(block.objects))
        block = next(blocks, None)


def _refuse_unknown(block: _Lines, names: set[str], name: str, guessed: bool) -> None:
    for number, row in zip(block.numbers, block.objects, strict=True):
        if not row.keys() <= names:
            key = next(key for key in row if key not in names)
            hint = _GUESSED if guessed else f"; the table and the first lines have {', '.join(sorted(names))}"
            raise InvalidDataError(f"line {number} of {name}: unexpected key {key!r}{hint}", column=key)


def _misplaced(error: InvalidDataError, place: str, guessed: bool) -> InvalidDataError:
    return InvalidDataError(f"{place}: {error}{_GUESSED if guessed else ''}", column=error.column)


def _nullable(fields: list[StructField]) -> pa.Schema:
    """The columns of a file, all nullable: the table decides whether nulls are allowed."""
    return pa.schema([field.with_nullable(True) for field in arrow_schema(StructType(tuple(fields)))])


_READERS: dict[Format, Callable[[BinaryFile, str, StructType | None], Reader]] = {
    Format.parquet: _open_parquet,
    Format.arrow: _open_arrow,
    Format.csv: _open_csv,
    Format.jsonl: _open_jsonl,
}
