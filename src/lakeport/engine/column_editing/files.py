"""`EditableParquetFiles`: the Parquet handler of the default engine."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack

import pyarrow as pa

from lakeport.engine.column_editing.editor import ParquetEditor
from lakeport.engine.column_editing.footer import NotEditableError
from lakeport.engine.column_editing.original import Original
from lakeport.engine.parquet import ParquetFiles
from lakeport.engine.parquet.batch_size import BatchSize
from lakeport.engine.parquet.legacy_calendar import LegacyCalendar
from lakeport.engine.parquet.reading import parquet_errors
from lakeport.kernel.engine import FileSplit, FileStatus


class EditableParquetFiles(ParquetFiles):
    """A `ParquetEditingHandler`."""

    def open_editor(
        self,
        file: FileStatus,
        path: str,
        columns: pa.Schema,
        written: pa.Schema,
        compression: str = "snappy",
        bounded: Collection[tuple[str, ...]] = (),
    ) -> ParquetEditor | None:
        with ExitStack() as resources:
            opened, source = resources.enter_context(self._open(file))
            if LegacyCalendar.of_file(opened, file.path) is not None:  # new values would be read as old ones
                return None

            def read(group: int, schema: pa.Schema, batch_size: int | None = None) -> Iterator[pa.RecordBatch]:
                split = FileSplit(file, group, group + 1)
                with parquet_errors(file.path):
                    yield from self._read_split(opened, source, split, schema, None, BatchSize.of(batch_size))

            def read_encoded(group: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
                with parquet_errors(file.path):
                    yield from self._read_encoded(opened, source, FileSplit(file, group, group + 1), schema)

            try:
                editor = ParquetEditor(Original(source), columns, written, compression, bounded)
            except NotEditableError:
                return None
            editor.begin(self._storage.open_output(path), path, self._clock, read, read_encoded, resources.pop_all())
            return editor
