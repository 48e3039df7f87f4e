"""The interface between the kernel and its environment: storage, JSON, Parquet, expressions and a clock.

The kernel implements the protocol and does no I/O of its own. Implementations must honour the docstrings of these
Protocols; `lakeport.testing.EngineContract` tests them.

Paths are plain text, never percent-encoded: an absolute local path or `scheme://authority/key`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from lakeport.kernel.expressions import Expression
from lakeport.kernel.schema import ROW_POSITION

FIELD_ID = b"PARQUET:field_id"
"""Arrow field metadata: match the column by this Parquet field id, at every level of nesting."""

METADATA_COLUMN = b"lakeport.metadata_column"
"""Arrow field metadata: a column about the file, not stored in it: `row_index` in Parquet, `file_index` in JSON."""

AS_STORED = b"lakeport.as_stored"
"""Arrow field metadata: return the column in the file's own types; only prune its fields."""

ROW_INDEX = pa.field(ROW_POSITION.name, pa.int64(), nullable=False, metadata={METADATA_COLUMN: b"row_index"})
"""The position of each row in the physical file, regardless of skipped rows."""

FILE_INDEX = pa.field("_file_index", pa.int64(), nullable=False, metadata={METADATA_COLUMN: b"file_index"})
"""The index of each row's file among those to read."""


@dataclass(frozen=True, slots=True)
class FileStatus:
    """A file's path, size in bytes and modification time in milliseconds since the epoch."""

    path: str
    size: int
    modification_time: int = 0
    tag: str | None = None
    """Changes whenever the file is overwritten, as an ETag; None if the storage has no such thing."""


@dataclass(frozen=True, slots=True)
class FileSplit:
    """A file to read, or its row groups `first_row_group` … `end_row_group - 1`."""

    file: FileStatus
    first_row_group: int = 0
    end_row_group: int | None = None


class OutputFile(Protocol):
    """A new file, written sequentially by one thread at a time.

    Raises the same errors as `StorageClient`. After an error, call only `abort`.
    """

    def write(self, data: bytes | memoryview) -> int:
        """Append all of `data` and return its length in bytes. May buffer a little of it in memory."""

    def close(self) -> None:
        """Finish the file: it becomes visible to every reader and survives a crash of this machine."""

    def abort(self) -> None:
        """Discard the file completely. Never raises; a no-op after `close` or when repeated."""


class StorageClient(Protocol):
    """Files by path.

    Raises only `MissingFileError` for a missing file, `AccessDeniedError` for lacking permission, and
    `StorageError` for a storage failure.
    """

    def resolve(self, path: str) -> str:
        """Return the absolute form of a user's path, a local path or `scheme://authority/key`, without a trailing `/`.
        Does not check that it exists."""

    def list_from(self, directory: str, first_name: str) -> Iterator[FileStatus]:
        """The files directly in `directory` with names >= `first_name`, sorted by name in byte order.
        Empty if the directory does not exist."""

    def scans_directories(self, directory: str) -> bool:
        """Whether `list_from` scans the whole directory regardless of `first_name`. If so, `status` finds a few files
        faster."""

    def status(self, path: str) -> FileStatus | None:
        """The file; None if it does not exist."""

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """The bytes of a file or a range of it; fewer if the file ends earlier."""

    def read_many(self, files: Sequence[FileStatus]) -> Iterator[bytes]:
        """The contents of small files, in order; may prefetch in parallel, the first one from the call on."""

    def open_input(self, file: FileStatus) -> pa.NativeFile:
        """Open the file for random access."""

    def list_all(self, directory: str) -> Iterator[FileStatus]:
        """Every file below `directory`, at any depth and in any order, including names that start with `.` or `_`.
        Paths begin with `directory`. Does not follow links to directories. Empty if it does not exist."""

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        """Create a file and its parent directories atomically and durably (it survives a crash of this machine).
        Put-if-absent without `overwrite`: of several concurrent writers one succeeds, others get `FileExistsError`.

        After `StorageError` the file may exist. A store that retries a request after losing the response may raise
        `FileExistsError` for its own write; to find out, read the file."""

    def open_output(self, path: str) -> OutputFile:
        """Open a new file for data too large for `write`, creating parent directories. The name must be unique: an
        existing file is overwritten or raises `FileExistsError`. Readers may see a partial file before `close`."""

    def delete(self, paths: Sequence[str]) -> None:
        """Delete files, ignoring missing ones. If one cannot be deleted, delete the others before raising."""


class JsonHandler(Protocol):
    """Reads JSON into Arrow."""

    def read_json_files(self, files: Sequence[FileStatus], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The lines of the files as batches of exactly `schema`, in file and line order.

        No batch spans two files, unless the schema has `FILE_INDEX`; a key of that name is ignored. Keys missing from
        the schema are ignored at every level; keys missing from a line are null. A JSON object becomes a struct or a
        map, depending on the schema. Raises `CorruptTableError` with file and line for invalid JSON or values that do
        not fit the schema.
        """

    def parse_json(self, texts: pa.StringArray, schema: pa.Schema) -> pa.RecordBatch:
        """One row per text. A value that does not parse or fit its column's type is null, so a bad statistic is
        unknown. Accepts dates, timestamps and decimals as strings, and decimals as numbers too."""


class DataFileWriter(Protocol):
    """A new Parquet file. Used by one thread at a time; several writers may run concurrently."""

    @property
    def size(self) -> int:
        """Approximate file size in bytes so far, including buffered data. Callers use it to roll over to a new file."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; text may be a dictionary of text. Raises `InvalidDataError` if the batch's schema differs from
        the file's in another way (ignoring metadata) and, here or in `close`, for a null in a required column. Also
        raises the errors of `OutputFile`. After an error, call only `abort`."""

    def close(self) -> FileStatus:
        """Finish the file and return its path, exact size and time. A file without rows is valid."""

    def bounds(self, path: tuple[str, ...]) -> tuple[Any, Any] | None:
        """After `close`: the least and greatest value, exactly, of one of the file's `bounded` columns; text in the
        order of its code points. None if all values are null."""

    def abort(self) -> None:
        """Discard the file completely. Never raises; a no-op after `close` or when repeated."""


class ParquetHandler(Protocol):
    """Reads Parquet into Arrow and writes Arrow to Parquet."""

    def read_parquet_files(
        self,
        files: Iterable[FileSplit],
        schema: pa.Schema,
        predicate: Expression | None = None,
        batch_size: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows as batches of exactly `schema`, in file and row order; no batch spans two files. May read several
        files at once.

        - A column with `FIELD_ID` is matched by that id, otherwise by name; nested fields likewise.
        - A nullable column missing from the file is all null; a missing required one raises `CorruptTableError`.
        - A column of another physical type is cast if Delta's type widening allows it (`columns.conform`);
          otherwise raises `CorruptTableError`.
        - Text that is not UTF-8 raises `CorruptTableError`.
        - A variant column (`schema.is_variant_field`) or one marked `AS_STORED` keeps the file's type.
        - `ROW_INDEX` holds positions in the physical file, regardless of skipped rows.
        - `predicate` refers to `schema`. It may be used to skip rows that do not match, but such rows may still be
          returned.
        - Batches have at most `batch_size` rows; only a few are held in memory.

        Raises `MissingFileError` and `CorruptTableError` with the path.
        """

    def read_encoded(
        self, split: FileSplit, schema: pa.Schema, batch_size: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a file as `read_parquet_files` reads them, for a `DataFileWriter`: a text column may be left a
        dictionary of text. `schema` has neither variants nor `ROW_INDEX`."""

    def split(self, file: FileStatus, parts: int) -> list[FileSplit]:
        """Split the file at row groups into at most `parts` pieces of similar size that cover it."""

    def open_writer(
        self, path: str, schema: pa.Schema, compression: str = "snappy", bounded: Collection[tuple[str, ...]] = ()
    ) -> DataFileWriter:
        """Open a writer for a new file with a unique name. `compression` is uncompressed, snappy, gzip or zstd.
        `bounded` are the columns whose bounds are asked for in the end: text and decimals, outside lists and maps.

        - A column with `FIELD_ID` gets that id in the file; nested fields likewise.
        - Required columns are required in the file, at every level of nesting.
        - Timestamps are written in microseconds, zoned ones as UTC; a variant is written as its struct.
        - Row groups have statistics and are large even if batches are small; buffering is bounded.
        """

    def encode_parquet(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> bytes:
        """Encode a Parquet file in memory, like `open_writer`, for files that must be created atomically."""


class FileEditor(Protocol):
    """A new Parquet file with the rows of another one, and new values in some columns. If it gets new values for all
    columns, a row group may have other rows. Used by one thread."""

    @property
    def row_groups(self) -> Sequence[int]:
        """The number of rows of each row group. `replace` must be called once for each of them, in order."""

    @property
    def renewed(self) -> frozenset[str]:
        """The columns to replace in every row group: the file lacks them, or stores them in another way."""

    @property
    def replaces_all(self) -> bool:
        """Whether the columns that may be replaced are all of the file's."""

    def read(self, group: int, schema: pa.Schema, batch_size: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of a row group, as `read_parquet_files` reads them."""

    def read_encoded(self, group: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows of a row group, as `ParquetHandler.read_encoded` reads them."""

    def replace(self, group: int, columns: Iterable[pa.Table]) -> None:
        """Write a row group. Each table has new values for all rows of some columns; the others keep theirs. Text may
        be a dictionary of text. Raises the errors of `DataFileWriter`. After an error, call only `abort`."""

    def bounds(self, path: tuple[str, ...]) -> tuple[Any, Any] | None:
        """The bounds of the new values of a `bounded` column so far, as `DataFileWriter.bounds`."""

    def close(self) -> FileStatus:
        """Finish the file and return its path, exact size and time."""

    def abort(self) -> None:
        """Discard the file completely. Never raises; a no-op after `close` or when repeated."""


@runtime_checkable
class ParquetEditingHandler(Protocol):
    """What a `ParquetHandler` may have besides."""

    def open_editor(
        self,
        file: FileStatus,
        path: str,
        columns: pa.Schema,
        written: pa.Schema,
        compression: str = "snappy",
        bounded: Collection[tuple[str, ...]] = (),
    ) -> FileEditor | None:
        """Begin a new file at `path` that differs from `file` in the values of some columns. They are found by the
        fields of `columns`, and new values are written as those of `written`, as by the other methods; both have the
        same names. `bounded` is as for `open_writer`. None if the file must be written as a whole; there is no file at
        `path` then."""


class ExpressionHandler(Protocol):
    """Evaluates bound expressions (`bind`, `bind_value`) over Arrow batches, which may have rows but no columns.

    A row whose value cannot be computed (overflow, division by zero, a failing cast) raises `InvalidDataError`. A value
    is computed only if needed: not in a CASE branch that is not taken, after an AND, OR or COALESCE that is decided, or
    for a row that is not selected.
    """

    def evaluator(self, schema: pa.Schema, expression: Expression) -> Callable[[pa.RecordBatch], pa.Array]:
        """Return a function from batches of `schema` to one column of values in the Arrow type of `type_of`.

        Raises `UnsupportedExpressionError` for an unknown expression, `UnknownColumnError` for an unknown column."""

    def predicate_evaluator(
        self, schema: pa.Schema, predicate: Expression
    ) -> Callable[[pa.RecordBatch, pa.BooleanArray | None], pa.BooleanArray]:
        """Return a function from a batch and its current selection to the selection after the predicate. The result has
        no nulls and never selects a row that was not selected before; null in a selection is not selected."""


class Engine(Protocol):
    """Everything the kernel needs from its environment. Handlers can be mixed and must be thread-safe."""

    def now(self) -> int:
        """The current time in milliseconds since the epoch."""

    @property
    def storage(self) -> StorageClient: ...
    @property
    def json(self) -> JsonHandler: ...
    @property
    def parquet(self) -> ParquetHandler: ...
    @property
    def expressions(self) -> ExpressionHandler: ...
