"""`ParquetEditor`: a new file that differs from another one in some columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa

from lakeport.engine.column_editing.assembly import Assembly, TakenOver
from lakeport.engine.column_editing.encoding import encode, encode_bounded
from lakeport.engine.column_editing.footer import InGroup, NotEditableError, Top
from lakeport.engine.column_editing.original import Original
from lakeport.engine.column_editing.thrift import Struct
from lakeport.engine.parquet.bounds import Bounds, widened
from lakeport.engine.parquet.leaves import Path
from lakeport.engine.parquet.writing import writing_errors
from lakeport.engine.storage.ranges import RangeInput
from lakeport.kernel.data_files import FieldIndex
from lakeport.kernel.engine import FileStatus, OutputFile

_SORTING_LEAF = 1
"""In a sorting column."""


class _Read(Protocol):
    """Reads columns of a row group."""

    def __call__(self, group: int, schema: pa.Schema, batch_size: int | None = None) -> Iterator[pa.RecordBatch]: ...


class _ReadEncoded(Protocol):
    """Reads columns of a row group; text may be a dictionary."""

    def __call__(self, group: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]: ...


_Chunks = dict[int, list[TakenOver]]
"""New chunks of a row group, by the places of their top-level columns in the new file."""


class Columns:
    """The columns of a file and of its successor, in which some have new values and missing ones are added.

    Raises `NotEditableError` for a file with ambiguous names."""

    def __init__(self, original: Original, changing: pa.Schema, written: pa.Schema, compression: str) -> None:
        self._original = original
        self._bare = encode(written.empty_table(), compression, page_index=False)
        self._new = dict(zip(written.names, self._bare.tops, strict=True))
        self._places = _places(original, changing)
        self.renewed = frozenset(name for name in changing.names if not self._fits(name))
        """Those that cannot keep a chunk."""
        by_place = {place: name for name, place in self._places.items()}
        self.tops = [self._top(place, by_place.get(place)) for place in range(max(by_place, default=-1) + 1)]
        self.tops += original.tops[len(self.tops) :]

    @property
    def are_all(self) -> bool:
        return len(self._places) == len(self.tops)

    def place(self, name: str) -> int:
        return self._places[name]

    @cached_property
    def orders(self) -> list[Struct]:
        """In what orders the bounds of values are."""
        renewed = {self._places[name] for name in self.renewed}
        orders = (
            self._original.default_orders(top) if place in renewed else self._original.orders(top)
            for place, top in enumerate(self.tops)
        )
        return [order for of_top in orders for order in of_top]

    def _top(self, place: int, name: str | None) -> Top:
        return self._original.tops[place] if name is None or name not in self.renewed else self._new[name]

    def _fits(self, name: str) -> bool:
        """Whether new chunks of a column may stand beside those of the file."""
        if (place := self._places[name]) >= len(self._original.tops):
            return False
        given, new = self._original.schema.field(place), self._bare.schema.field(name)
        is_same: bool = given.type == new.type
        return is_same and self._original.tops[place].layout == self._new[name].layout


def _places(original: Original, changing: pa.Schema) -> dict[str, int]:
    """Where the columns are in the file, or behind its last one."""
    names = [name.lower() for name in original.schema.names]
    if len(set(names)) < len(names):
        raise NotEditableError("names of columns differ only in case")
    fields, end = FieldIndex(original.schema), len(names)
    places: dict[str, int] = {}
    for field in changing:
        found = fields.find(field)
        if found is None and field.name.lower() in names:
            raise NotEditableError("a column without the id has the name of a missing one")
        places[field.name] = end if found is None else found
        end += found is None
    if len(set(places.values())) < len(places):
        raise NotEditableError("two table columns map to the same column of the file")
    return places


class ParquetEditor:
    """The `FileEditor` of the default engine."""

    def __init__(
        self, original: Original, columns: pa.Schema, written: pa.Schema, compression: str, bounded: Collection[Path]
    ) -> None:
        """Raises `NotEditableError`."""
        self._original, self._compression, self._bounded = original, compression, bounded
        self._columns = Columns(original, columns, written, compression)
        self._bounds: dict[Path, Bounds] = {}

    def begin(
        self,
        output: OutputFile,
        path: str,
        clock: Callable[[], int],
        read: _Read,
        read_encoded: _ReadEncoded,
        resources: ExitStack,
    ) -> None:
        """Begin the new file. The functions read a row group; `resources` are closed in the end."""
        self._output, self._path, self._clock, self._resources = output, path, clock, resources
        self.read, self.read_encoded = read, read_encoded
        self._assembly = Assembly(output.write)

    @property
    def row_groups(self) -> list[int]:
        return self._original.rows

    @property
    def renewed(self) -> frozenset[str]:
        return self._columns.renewed

    @property
    def replaces_all(self) -> bool:
        return self._columns.are_all

    def replace(self, group: int, columns: Iterable[pa.Table]) -> None:
        chunks: _Chunks = {}
        rows = self._original.rows[group]
        for table in columns:
            rows, made = table.num_rows, self._encoded(table)
            for name, top in zip(table.schema.names, made.tops, strict=True):
                chunks[self._columns.place(name)] = [TakenOver(made, 0, leaf) for leaf in top.all_leaves]
        self._write(group, rows, chunks)

    def bounds(self, path: Path) -> tuple[Any, Any] | None:
        return self._bounds.get(path)

    def close(self) -> FileStatus:
        self._assembly.finish(self._original, self._columns.tops, self._columns.orders)
        self._output.close()
        self._resources.close()
        return FileStatus(self._path, self._assembly.size, self._clock())

    def abort(self) -> None:
        self._output.abort()
        self._resources.close()

    def _encoded(self, table: pa.Table) -> Original:
        bounded = [path for path in self._bounded if path[0] in table.schema.names]
        with writing_errors(self._path):
            made, bounds = encode_bounded(table, self._compression, bounded, page_index=self._original.has_page_index)
        for path in bounded:
            if (found := bounds.of(path)) is not None:
                self._bounds[path] = widened(self._bounds.get(path), found)
        return made

    def _write(self, group: int, rows: int, new: _Chunks) -> None:
        if not rows:
            return
        original = self._original
        assert rows == original.rows[group] or len(new) == len(self._columns.tops), "columns would differ in length"
        kept = {p: [TakenOver(original, group, leaf) for leaf in self._leaves(p)] for p in self._kept(new)}
        self._fetch(part for parts in kept.values() for part in parts)
        parts = [(part, top) for place, top in enumerate(self._columns.tops) for part in (new | kept)[place]]
        self._assembly.add_group(rows, parts, self._sorting(group, new))

    def _kept(self, new: _Chunks) -> list[int]:
        assert all(self._columns.place(name) in new for name in self.renewed), "their chunks do not fit"
        return [place for place in range(len(self._columns.tops)) if place not in new]

    def _leaves(self, place: int) -> range:
        return self._original.tops[place].all_leaves

    def _sorting(self, group: int, new: _Chunks) -> list[Struct]:
        """How the rows are still sorted: not by columns that have new values."""
        changed = {leaf for place in new if place < len(self._original.tops) for leaf in self._leaves(place)}
        order: list[Struct] = self._original.groups[group].items_of(InGroup.SORTING_COLUMNS)
        valid = not self.renewed and changed.isdisjoint(column.value(_SORTING_LEAF) for column in order)
        return order if valid else []

    def _fetch(self, parts: Iterable[TakenOver]) -> None:
        """Fetch the chunks to take over ahead, if the file is remote."""
        if isinstance(self._original.source, RangeInput):
            self._original.source.fetch_ahead(place for part in parts for place in part.chunk.ranges)
