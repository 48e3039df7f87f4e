"""Write Arrow as Parquet with pyarrow: batches of any size become row groups of a good size."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeport.engine.clock import system_clock
from lakeport.engine.parquet.bounds import EncodedBounds
from lakeport.engine.parquet.dictionaries import columns_with_dictionary
from lakeport.engine.parquet.encoded import common_schema, decoded, united
from lakeport.errors import InvalidDataError, LakeportError
from lakeport.kernel.engine import FileStatus, OutputFile
from lakeport.workers.memory import arrow_pool_for

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_ROW_GROUP_ROWS = 1 << 20
_ROW_GROUP_BYTES = 32 << 20
"""The size of a row group, in Arrow's memory format."""
_FEW_ROWS = 1 << 16
_MOST_BYTES = 128 << 20
"""A row group of few rows may be as large as this: the columns of wide tables would become too short otherwise."""


class ParquetFileWriter:
    """The `DataFileWriter` of the default engine."""

    def __init__(
        self,
        output: OutputFile,
        path: str,
        schema: pa.Schema,
        clock: Callable[[], int],
        compression: str = "snappy",
        bounded: Collection[tuple[str, ...]] = (),
    ) -> None:
        self._path, self._schema, self._clock = path, schema, clock
        self._compression = compression
        self._sink = _Sink(output)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = self._grouped_bytes = 0
        self._writer: pq.ParquetWriter | None = None
        self._footers: list[pq.FileMetaData] = []
        self._bounds = EncodedBounds(schema, bounded)

    @property
    def size(self) -> int:
        compression = self._sink.size / self._grouped_bytes if self._grouped_bytes else 1.0
        return self._sink.size + int(self._waiting_bytes * compression)

    def write(self, batch: pa.RecordBatch) -> None:
        self._check(batch)
        bytes_per_row = max(1.0, batch.nbytes / max(1, batch.num_rows))
        while batch.num_rows:
            piece = batch.slice(0, max(1, self._room(bytes_per_row)))
            batch = batch.slice(piece.num_rows)
            self._waiting.append(piece)
            self._waiting_rows += piece.num_rows
            self._waiting_bytes += int(piece.num_rows * bytes_per_row)
            if self._room(bytes_per_row) < 1:
                self._write_row_group()

    def close(self) -> FileStatus:
        if self._waiting or self._writer is None:
            self._write_row_group()
        assert self._writer is not None
        with writing_errors(self._path):
            self._writer.close()
        self._bounds.finish(self._footers[0])
        self._sink.finish()
        return FileStatus(self._path, self._sink.size, self._clock())

    def bounds(self, path: tuple[str, ...]) -> tuple[Any, Any] | None:
        return self._bounds.of(path)

    def abort(self) -> None:
        self._waiting.clear()
        self._sink.abort()
        if self._writer is not None:
            with suppress(Exception):  # otherwise it would close on garbage collection
                self._writer.close()

    def _room(self, bytes_per_row: float) -> int:
        """How many more such rows fit into the row group."""
        rows = int((_ROW_GROUP_BYTES - self._waiting_bytes) / bytes_per_row)
        if self._waiting_rows + rows < _FEW_ROWS:
            rows = min(_FEW_ROWS - self._waiting_rows, int((_MOST_BYTES - self._waiting_bytes) / bytes_per_row))
        return min(rows, _ROW_GROUP_ROWS - self._waiting_rows)

    def _check(self, batch: pa.RecordBatch) -> None:
        if not batch.schema.equals(self._schema) and not decoded(batch.schema).equals(self._schema):
            raise InvalidDataError(
                f"the batch's schema differs from the file's [{self._path}]:\n{batch.schema.to_string()}\n"
                f"instead of\n{self._schema.to_string()}"
            )

    def _write_row_group(self) -> None:
        with writing_errors(self._path):
            schema = common_schema(self._waiting, self._schema) if self._writer is None else self._writer.schema
            table = united(self._waiting, schema)
            if self._writer is None:
                self._writer = open_encoder(self._sink, table, self._compression, metadata_collector=self._footers)
            if self._waiting:
                self._bounds.add(table)
                self._writer.write_table(table, row_group_size=self._waiting_rows)
        self._grouped_bytes += self._waiting_bytes
        self._waiting.clear()
        self._waiting_rows = self._waiting_bytes = 0


def encode_parquet(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> bytes:
    """Encode a file in memory; raises the errors of a `DataFileWriter`."""
    output = _Bytes()
    writer = ParquetFileWriter(output, "in memory", schema, system_clock)
    try:
        for batch in batches:
            writer.write(batch)
        writer.close()
    except BaseException:
        writer.abort()
        raise
    return output.getvalue()


class _Bytes(io.BytesIO):
    """An in-memory `OutputFile` whose bytes survive its close."""

    def close(self) -> None: ...

    def abort(self) -> None: ...


class _Sink(io.RawIOBase):
    """Adapts an `OutputFile` to pyarrow and counts bytes. After an abort, further writes are dropped."""

    def __init__(self, output: OutputFile) -> None:
        self._output: OutputFile | None = output
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self._output:
            self._output.write(data)
        length = len(data)
        self.size += length
        return length

    def finish(self) -> None:
        """Close the file; an abort after this does nothing."""
        if self._output:
            self._output.close()
        self._output = None

    def abort(self) -> None:
        if self._output:
            self._output.abort()
        self._output = None


def open_encoder(sink: Any, first: pa.Table, compression: str, **options: Any) -> pq.ParquetWriter:
    """Open a writer for a file whose first row group is given; `options` are pyarrow's.

    Does not store Arrow's own schema: Parquet's has all that a table needs, and readers trust only that. Decimals are
    stored as integers where they fit, as Spark writes them."""
    from pyarrow.parquet import ParquetWriter

    return ParquetWriter(
        sink,
        first.schema,
        compression="none" if compression == "uncompressed" else compression,
        use_dictionary=columns_with_dictionary(first),
        coerce_timestamps="us",
        store_decimal_as_integer=True,
        store_schema=False,
        memory_pool=arrow_pool_for(first.nbytes),
        **options,
    )


@contextmanager
def writing_errors(path: str) -> Iterator[None]:
    """Convert pyarrow's errors to ours; storage errors pass through."""
    try:
        yield
    except LakeportError:
        raise
    except pa.ArrowException as error:
        raise InvalidDataError(f"the data cannot be written as Parquet: {error} [{path}]") from error
