"""Rewrite files column by column: columns that an update does not set are copied byte for byte.

A file is edited unless change files or row ids need its whole rows. If the engine or the file does not support editing,
the file is rewritten row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import msgspec
import pyarrow as pa

from lakeport.errors import InvalidDataError, InvalidFilterError, UnknownColumnError
from lakeport.kernel.engine import Engine, FileEditor, ParquetEditingHandler
from lakeport.kernel.expressions import columns_in, parse_expression
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.schema import GENERATION_EXPRESSION, StructType, format_schema, is_variant, types_in
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.write import RowTransformer, WriteContext
from lakeport.tables.rows.changes import FileChange, RowUpdate
from lakeport.tables.rows.edited_file import CannotEditError, EditedColumn, EditedFile
from lakeport.tables.rows.output import Edited, RowOutput
from lakeport.workers import Workplace
from lakeport.workers.copying import RowCopier
from lakeport.workers.memory import release_memory
from lakeport.workers.reading import RowReader, reporting_vacuumed_files

_SMALL_FILE = 1 << 20
"""Smaller files are rewritten, several into one."""
_SMALL_CHUNK = 1 << 10
"""Columns of row groups with fewer bytes than this, on average, are rewritten faster."""
_EDITING_DIVISOR = 6
"""The share of limited memory for the new values of a row group, which are also held encoded."""


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
        return is_large(change.file, self.context) and not change.deletes_rows

    def run(self, place: Workplace, change: FileChange, output: RowOutput) -> Iterator[Edited]:
        """Write the file anew, with a result after each row group. Raises `CannotEditError`."""
        most = place.memory and place.memory // place.threads // _EDITING_DIVISOR
        begin = partial(self._file, place.engine, change, most)
        return edit(place, self.context, self.columns, change.file, output, begin)

    def _file(self, engine: Engine, change: FileChange, most: int | None, editor: FileEditor) -> EditedFile:
        assert change.update is not None, "updated rows have new values"
        update = change.update.open(engine, self.read)
        transformer = RowTransformer(engine, self._narrow)
        return EditedFile(engine, self.reader, change, self.columns, update, transformer, editor, most)

    @cached_property
    def _narrow(self) -> WriteContext:
        """The context with only the columns needed."""
        context = self.context
        return msgspec.structs.replace(
            context,
            schema_json=format_schema(StructType(tuple(f for f in context.schema if f.name in self.needed))),
            partition_columns=tuple(name for name in context.partition_columns if name in self.needed),
        )


class NewFile(Protocol):
    """The row groups of a file that is edited."""

    @property
    def updated_rows(self) -> int: ...
    @property
    def copied_rows(self) -> int: ...

    def write(self, group: int) -> None:
        """Write a row group. Raises `InvalidDataError` and `CannotEditError`."""

    def statistics(self) -> str:
        """In the end: the statistics of the file."""


def edit(
    place: Workplace,
    context: WriteContext,
    columns: Sequence[EditedColumn],
    file: ScanFile,
    output: RowOutput,
    begin: Callable[[FileEditor], NewFile],
    bounded: Collection[tuple[str, ...]] = (),
) -> Iterator[Edited]:
    """Write a file anew, with a result after each row group; the editor finds the bounds of `bounded` columns. Raises
    `CannotEditError`."""
    values = RowCopier(context).partition_values(file)
    with reporting_vacuumed_files():
        editor = _open_editor(place.engine, context, columns, bounded, file, output.new_file(values))
        try:
            new = begin(editor)
            for group in range(len(editor.row_groups)):
                new.write(group)
                if place.memory is not None:
                    release_memory()
                yield Edited()
            stats = new.statistics()
            yield Edited(context.add(editor.close(), values, stats), new.updated_rows, new.copied_rows)
        except (InvalidDataError, pa.ArrowException) as error:
            raise CannotEditError from error
        finally:
            editor.abort()


def _open_editor(
    engine: Engine,
    context: WriteContext,
    columns: Sequence[EditedColumn],
    bounded: Collection[tuple[str, ...]],
    file: ScanFile,
    path: str,
) -> FileEditor:
    if not isinstance(engine.parquet, ParquetEditingHandler):
        raise CannotEditError
    found, written = pa.schema([c.found for c in columns]), pa.schema([c.written for c in columns])
    editor = engine.parquet.open_editor(file.status, path, found, written, context.compression, bounded)
    if editor is None:
        raise CannotEditError
    if file.size < _least_size(context) * len(editor.row_groups):
        editor.abort()
        raise CannotEditError
    return editor


def is_large(file: ScanFile, context: WriteContext) -> bool:
    """Whether editing a file is likely to be possible and worthwhile."""
    return file.size >= max(_SMALL_FILE, _least_size(context)) and file.deletion_vector is None


def _least_size(context: WriteContext) -> int:
    """Row groups of fewer bytes are rewritten faster than edited."""
    return _SMALL_CHUNK * len(context.stored_fields)


def _used_in_expressions(context: WriteContext) -> set[str]:
    """The columns that constraints and generated columns depend on; all if that is unknown."""
    generated = [str(f.metadata.get(GENERATION_EXPRESSION, "")) for f in context.schema]
    try:
        expressions = map(parse_expression, filter(None, [*context.constraints.values(), *generated]))
        used = {column.path[0] for expression in expressions for column in columns_in(expression)}
        return {context.schema.resolve((name,))[0].name for name in used}
    except (InvalidFilterError, UnknownColumnError):
        return set(context.schema.names)
