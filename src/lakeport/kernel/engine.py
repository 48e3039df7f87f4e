"""The seam between the kernel and the world: an `Engine` is storage + JSON + Parquet + expressions + a clock.

The kernel holds the protocol and does no I/O of its own. Whoever implements these Protocols takes on the
obligations in their docstrings; `tests/engine_contract.py` checks them for every engine.

Paths are plain text, never percent-encoded: an absolute path on a disk, or `scheme://authority/key`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from lakeport.kernel.expressions import Expression
from lakeport.kernel.schema import ROW_POSITION

FIELD_ID = b"PARQUET:field_id"
"""Arrow field metadata: the column is matched by this Parquet field id, at every level of nesting."""

METADATA_COLUMN = b"lakeport.metadata_column"
"""Arrow field metadata: the column is not in the file but about it; the only one so far is `row_index`."""

AS_STORED = b"lakeport.as_stored"
"""Arrow field metadata: the column is returned with the types that the file has, only its fields are pruned."""

ROW_INDEX = pa.field(ROW_POSITION.name, pa.int64(), nullable=False, metadata={METADATA_COLUMN: b"row_index"})
"""The position of each row in the physical file, whatever was skipped before it."""


@dataclass(frozen=True, slots=True)
class FileStatus:
    """A file: where it is, its size in bytes and its modification time in milliseconds since the epoch."""

    path: str
    size: int
    modification_time: int = 0


@dataclass(frozen=True, slots=True)
class FileSplit:
    """A file to read, or the row groups `first_row_group` … `end_row_group - 1` of it."""

    file: FileStatus
    first_row_group: int = 0
    end_row_group: int | None = None


class OutputFile(Protocol):
    """A new file that is written from front to back. Used by one thread at a time.

    Raises what a `StorageClient` raises. After an error only `abort` may be called.
    """

    def write(self, data: bytes | memoryview) -> int:
        """Append all of `data`; returns its length in bytes. May keep some of it in memory, but never much."""

    def close(self) -> None:
        """Finish the file: what was written is there for every reader, and survives a crash of this machine."""

    def abort(self) -> None:
        """Give the file up: nothing of it stays. Never raises; does nothing after `close` or a second time."""


class StorageClient(Protocol):
    """Files by path.

    Raises `MissingFileError` for a file that is not there, `AccessDeniedError` where permission is lacking,
    and `StorageError` where the storage fails; never another exception.
    """

    def resolve(self, path: str) -> str:
        """The absolute form of what a person gave: the file system's path or `scheme://authority/key`, no `/` at its
        end. Does not look whether it exists."""

    def list_from(self, directory: str, first_name: str) -> Iterator[FileStatus]:
        """The files directly in `directory` whose names are >= `first_name`, sorted by name in byte order.
        Nothing if the directory does not exist."""

    def scans_directories(self, directory: str) -> bool:
        """Whether `list_from` goes through the whole directory, however late `first_name` is: then a few files are
        faster found one by one, with `status`."""

    def status(self, path: str) -> FileStatus | None:
        """The file; None if it does not exist."""

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """The bytes of a file or of a part of it; fewer where the file ends earlier."""

    def read_many(self, files: Sequence[FileStatus]) -> Iterator[bytes]:
        """The contents of small files, in order; they may be fetched ahead in parallel."""

    def open_input(self, file: FileStatus) -> pa.NativeFile:
        """The file for random access."""

    def list_all(self, directory: str) -> Iterator[FileStatus]:
        """Every file below `directory`, at any depth and in any order, also those whose names start with `.` or `_`.
        Their paths begin with `directory`. Links to directories are not followed. Nothing if it does not exist."""

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        """Create a file in one atomic step, and the directories above it. It survives a crash of this machine.
        Without `overwrite`, raises `FileExistsError` if it exists: of several who try at once, exactly one succeeds.

        After `StorageError` it may be there nevertheless. A store that repeats a request whose answer was lost may
        raise `FileExistsError` for the file that its own first request made: who must know looks at what is in it."""

    def open_output(self, path: str) -> OutputFile:
        """A new file for data too large for `write`, and the directories above it. Its name must be unique: where the
        file exists, it is overwritten or `FileExistsError` is raised. Readers may see a part of it before `close`."""

    def delete(self, paths: Sequence[str]) -> None:
        """Remove files; one that is not there is no error. Where one cannot be removed, the others are removed
        nevertheless before the error is raised."""


class JsonHandler(Protocol):
    """JSON into Arrow."""

    def read_json_files(self, files: Sequence[FileStatus], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The lines of the files as batches of exactly `schema`, files in the order given, lines in theirs.

        Keys that the schema does not name are ignored, at every level; keys that a line lacks are null. A JSON object
        is read as a struct or as a map, as the schema says. Raises `CorruptTableError` with the file and the line for
        text that is not JSON or does not fit the schema.
        """

    def parse_json(self, texts: pa.StringArray, schema: pa.Schema) -> pa.RecordBatch:
        """One row per text. What does not parse, or does not fit its column's type, is null: a bad statistic is an
        unknown one. Dates, timestamps and decimals are accepted as strings, decimals as numbers too."""


class DataFileWriter(Protocol):
    """A new Parquet file. Used by one thread at a time; several writers may work at once."""

    @property
    def size(self) -> int:
        """About how many bytes the file has so far, with those that are not written out yet: for a caller who goes on
        to another file at some size."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows. Raises `InvalidDataError` for a batch that has not exactly the file's schema (metadata aside),
        and, here or in `close`, for a null in a required column. Raises what an `OutputFile` raises. After an error
        only `abort` may be called."""

    def close(self) -> FileStatus:
        """Finish the file: its path, its exact size and the time. A file without rows is a valid file too."""

    def abort(self) -> None:
        """Give the file up: nothing of it stays. Never raises; does nothing after `close` or a second time."""


class ParquetHandler(Protocol):
    """Parquet into Arrow, and Arrow into Parquet."""

    def read_parquet_files(
        self,
        files: Iterable[FileSplit],
        schema: pa.Schema,
        predicate: Expression | None = None,
        batch_size: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows as batches of exactly `schema`: files in the order given, rows in theirs, no batch over two files.

        - A column with `FIELD_ID` is matched by that id, otherwise by its name; nested fields likewise.
        - A nullable column that the file lacks is all null; a required one raises `CorruptTableError`.
        - A column of another physical type is cast where Delta's type widening allows it (`columns.conform`),
          otherwise `CorruptTableError` is raised.
        - Text that is not UTF-8 raises `CorruptTableError`.
        - A column marked as a variant (`schema.is_variant_field`) or `AS_STORED` keeps the type that the file has.
        - `ROW_INDEX` is filled with the positions in the physical file, not counted over what was read.
        - `predicate` is in terms of `schema`. It may be used to leave out row groups in which no row can match. It
          promises nothing: rows that do not match may be returned.
        - Batches have at most `batch_size` rows; no more than a few of them are held in memory.

        Raises `MissingFileError` and `CorruptTableError` with the path.
        """

    def split(self, file: FileStatus, parts: int) -> list[FileSplit]:
        """The file cut at row groups into at most `parts` pieces of similar size that together are the whole."""

    def open_writer(self, path: str, schema: pa.Schema, compression: str = "snappy") -> DataFileWriter:
        """A writer of a new file, whose name must be unique. `compression` is uncompressed, snappy, gzip or zstd.

        - A column with `FIELD_ID` has that id in the file; nested fields likewise.
        - Required columns are required in the file, at every level of nesting.
        - Timestamps are written in microseconds, those with a zone as UTC; a variant as the struct that it is.
        - Row groups have statistics, and are large however small the batches are; what waits for one is bounded.
        """

    def encode_parquet(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> bytes:
        """A Parquet file in memory, written as `open_writer` writes: for one that must appear under its name in one
        atomic step."""


class ExpressionHandler(Protocol):
    """Expressions over Arrow batches."""

    def evaluator(self, schema: pa.Schema, expression: Expression) -> Callable[[pa.RecordBatch], pa.Array]:
        """A function from batches of `schema` to one column of values.

        Raises `UnsupportedExpressionError` for an expression that it does not know."""

    def predicate_evaluator(
        self, schema: pa.Schema, predicate: Expression
    ) -> Callable[[pa.RecordBatch, pa.BooleanArray | None], pa.BooleanArray]:
        """A function from a batch and what is selected of it so far to what is selected after the predicate: no nulls,
        and never a row that was not selected before."""


class Engine(Protocol):
    """What the kernel needs from the world. Handlers can be mixed; they must be safe to use from several threads."""

    def now(self) -> int:
        """The time in milliseconds since the epoch."""

    @property
    def storage(self) -> StorageClient: ...
    @property
    def json(self) -> JsonHandler: ...
    @property
    def parquet(self) -> ParquetHandler: ...
    @property
    def expressions(self) -> ExpressionHandler: ...
