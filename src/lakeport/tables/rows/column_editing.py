"""Rewrite files column by column: columns that an update does not set are copied byte for byte.

A file is edited unless change files or row ids need its whole rows. If the engine or the file does not support editing,
the file is rewritten row by row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import msgspec
import pyarrow as pa

from lakeport.errors import InvalidDataError, InvalidFilterError, UnknownColumnError
from lakeport.kernel.engine import Engine, FileEditor, ParquetEditingHandler
from lakeport.kernel.expressions import columns_in, parse_expression
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.schema import GENERATION_EXPRESSION, StructType, format_schema, is_variant, types_in
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.write import RowTransformer, WriteContext, replace_stats
from lakeport.tables.rows.changes import FileChange, RowUpdate
from lakeport.tables.rows.edited_file import EditedColumn, EditedFile
from lakeport.tables.rows.output import Edited, RowOutput
from lakeport.workers.copying import RowCopier
from lakeport.workers.reading import RowReader, reporting_vacuumed_files

_SMALL_FILE = 1 << 20
"""Smaller files are rewritten, several into one."""
_SMALL_CHUNK = 1 << 10
"""Columns of row groups with fewer bytes than this, on average, are rewritten faster."""


class CannotEditError(Exception):
    """The file must be rewritten row by row, which also names the rows that the table rejects."""


@dataclass(frozen=True)
class ColumnEditing:
    """Edits files in which an update sets some columns. Picklable."""

    context: WriteContext
    needed: frozenset[str]
    """The columns that new rows are checked with."""
    read: StructType
    """The columns that they are computed from."""
    reader: RowReader
    """Reads these columns."""
    columns: tuple[EditedColumn, ...]
    """The columns that change."""

    @classmethod
    def plan(cls, snapshot: Snapshot, context: WriteContext, update: RowUpdate) -> ColumnEditing | None:
        """None if the table or the updated columns do not allow editing."""
        changing = update.sets | {field.name for field in context.schema if GENERATION_EXPRESSION in field.metadata}
        fields = [field for field in context.stored_fields if field.name in changing]
        variants = any(is_variant(inner) for field in fields for inner in types_in(field.type))
        if context.row_id_column is not None or variants or len(fields) < len(changing):
            return None
        read = update.reads | _used_in_expressions(context)
        narrow = StructType(tuple(field for field in snapshot.schema if field.name in read))
        scan = snapshot.scan_builder().with_read_schema(narrow).with_row_position().build()
        columns = tuple(EditedColumn.of(field, context) for field in fields)
        return cls(context, read | changing, narrow, RowReader.for_scan(scan), columns)

    def is_candidate(self, change: FileChange) -> bool:
        """Whether editing this file is likely to be possible and worthwhile."""
        is_large = change.file.size >= max(_SMALL_FILE, self._least_size)
        return is_large and change.file.deletion_vector is None and not change.deletes_rows

    def run(self, engine: Engine, change: FileChange, output: RowOutput) -> Iterator[Edited]:
        """Write the file anew, with a result after each row group. Raises `CannotEditError`."""
        values = RowCopier(self.context).partition_values(change.file)
        with reporting_vacuumed_files():
            editor = self._open(engine, change.file, output.new_file(values))
            try:
                file = self._file(engine, change, editor)
                for group in range(len(editor.row_groups)):
                    file.write(group)
                    yield Edited()
                rows = sum(editor.row_groups)
                stats = replace_stats(change.file.stats, rows, file.statistics())
                add = self.context.add(editor.close(), values, stats)
                yield Edited(add, file.updated_rows, rows - file.updated_rows)
            except (InvalidDataError, pa.ArrowException) as error:
                raise CannotEditError from error
            finally:
                editor.abort()

    def _open(self, engine: Engine, file: ScanFile, path: str) -> FileEditor:
        if not isinstance(engine.parquet, ParquetEditingHandler):
            raise CannotEditError
        found = pa.schema([column.found for column in self.columns])
        written = pa.schema([column.written for column in self.columns])
        editor = engine.parquet.open_editor(file.status, path, found, written, self.context.compression)
        if editor is None:
            raise CannotEditError
        if file.size < self._least_size * len(editor.row_groups):
            editor.abort()
            raise CannotEditError
        return editor

    def _file(self, engine: Engine, change: FileChange, editor: FileEditor) -> EditedFile:
        assert change.update is not None, "updated rows have new values"
        update = change.update.open(engine, self.read)
        transformer = RowTransformer(engine, self._narrow)
        return EditedFile(engine, self.reader, change, self.columns, update, transformer, editor)

    @property
    def _least_size(self) -> int:
        """Row groups of fewer bytes are rewritten faster than edited."""
        return _SMALL_CHUNK * len(self.context.stored_fields)

    @cached_property
    def _narrow(self) -> WriteContext:
        """The context with only the columns needed."""
        context = self.context
        return msgspec.structs.replace(
            context,
            schema_json=format_schema(StructType(tuple(f for f in context.schema if f.name in self.needed))),
            partition_columns=tuple(name for name in context.partition_columns if name in self.needed),
        )


def _used_in_expressions(context: WriteContext) -> set[str]:
    """The columns that constraints and generated columns depend on; all if that is unknown."""
    generated = [str(f.metadata.get(GENERATION_EXPRESSION, "")) for f in context.schema]
    try:
        expressions = map(parse_expression, filter(None, [*context.constraints.values(), *generated]))
        used = {column.path[0] for expression in expressions for column in columns_in(expression)}
        return {context.schema.resolve((name,))[0].name for name in used}
    except (InvalidFilterError, UnknownColumnError):
        return set(context.schema.names)
