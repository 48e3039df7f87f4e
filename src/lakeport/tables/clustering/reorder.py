"""Rewrite the rows of files in the order of a curve. One pass over the ordering columns takes a sample; another, over
all columns, sorts the rows in bounded memory and writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.kernel.actions import Add
from lakeport.kernel.clustering import (
    CLUSTERING_PROVIDER,
    FULL_CUBE,
    LARGEST_CUBE,
    Row,
    RowOrder,
    cube_tags,
    plan_cubes,
)
from lakeport.kernel.data_files import physical_path
from lakeport.kernel.engine import Engine
from lakeport.kernel.maintenance import Bin, by_partition, is_worn, living_size
from lakeport.kernel.scan import Scan, ScanFile
from lakeport.kernel.values import python_value
from lakeport.kernel.write import PhysicalBatch, WriteContext
from lakeport.tables.clustering.layout import Layout
from lakeport.tables.operation import discard, paths_of
from lakeport.workers import Workplace
from lakeport.workers.copying import RowCopier, can_copy
from lakeport.workers.ordered import in_order, map_ordered
from lakeport.workers.reading import RowReader
from lakeport.workers.sorting import Keys, RowSorter
from lakeport.workers.writing import DataWriter

_Path = tuple[str, ...]
_SAMPLED_ROWS = 1 << 18
_BYTES_OF_A_ROW = 30
"""The assumed size of a row in a file, if the log does not have the number of rows."""
_HELD_BYTES = 96 << 20
"""The memory for rows that wait to be sorted, for all tasks of a process."""
_PROBES = 100


@dataclass(frozen=True)
class Rewritten:
    adds: list[Add]
    probes: list[Row] = field(default_factory=list)
    """Some of the rows, by their values in the ordering columns."""


def plan_reordering(files: Iterable[ScanFile], layout: Layout, *, full: bool, purge: bool) -> list[Bin]:
    """The files to order together. Only clustered tables skip some: their files name the order that they have."""
    if layout.is_own:
        again = partial(is_worn, purge=purge)
        return plan_cubes(files, layout.names, again=again, every=full, full=FULL_CUBE, most=LARGEST_CUBE)
    return by_partition(files)


@dataclass(frozen=True)
class ReorderFiles:
    """A task: rewrite the rows of some files of a partition into as many files as their size needs. A failed task
    leaves no file behind."""

    reader: RowReader
    sampler: RowReader
    """Reads the ordering columns."""
    context: WriteContext
    layout: Layout
    size: int
    """Of a file."""

    @classmethod
    def of(cls, scan: Scan, context: WriteContext, layout: Layout, size: int) -> ReorderFiles:
        snapshot = scan.snapshot
        columns = snapshot.scan_builder().with_read_schema(snapshot.schema.select(layout.columns)).build()
        return cls(RowReader.for_scan(scan), RowReader.for_scan(columns), context, layout, size)

    def __call__(self, place: Workplace, files: Bin) -> Rewritten:
        sample = self._sample(place, files)
        order = RowOrder.of(self.layout.curve, sample)
        rows = self._copied if can_copy(self.context) else self._read
        held = _HELD_BYTES if place.threads > 1 else _HELD_BYTES // (pa.cpu_count() + 1)
        with TemporaryDirectory(prefix="lakeport-") as folder, RowSorter(Path(folder), held) as sorter:
            for batch, keys in in_order(files, partial(rows, place.engine, order), place.threads):
                place.check()
                sorter.add(batch, keys)
            sorter.finish()
            adds = self._written(place, sorter, files)
        return Rewritten(self._tagged(adds), _probes(self.layout.columns, sample))

    def _sample(self, place: Workplace, files: Bin) -> list[pa.Array]:
        """The values of the ordering columns in rows chosen at random."""
        known = [file.num_records for file in files]
        rows = sum(file.size // _BYTES_OF_A_ROW if n is None else n for n, file in zip(known, files, strict=True))
        share = _SAMPLED_ROWS / max(rows, _SAMPLED_ROWS)
        found = in_order(files, partial(self._chosen, place.engine, share), place.threads)
        batches = [[column_at(batch, path) for path in self.layout.columns] for batch in found]
        none = pa.RecordBatch.from_pylist([], self.sampler.output)
        empty = [column_at(none, path) for path in self.layout.columns]
        return [pa.concat_arrays(arrays) for arrays in zip(empty, *batches, strict=True)]

    def _chosen(self, engine: Engine, share: float, file: ScanFile) -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng(0)
        for batch in self.sampler.read(engine, file):
            chosen = np.flatnonzero(random.random(batch.num_rows) < share)
            yield batch if share == 1 else batch.take(pa.array(chosen))

    def _copied(self, engine: Engine, order: RowOrder, file: ScanFile) -> Iterator[tuple[pa.RecordBatch, Keys]]:
        context = self.context
        paths = [physical_path(context.schema, path, context.mapping_mode) for path in self.layout.columns]
        for rows in RowCopier(context).read(engine, file):
            yield rows.data, order.places([column_at(rows.data, path) for path in paths])

    def _read(self, engine: Engine, order: RowOrder, file: ScanFile) -> Iterator[tuple[pa.RecordBatch, Keys]]:
        for rows in self.reader.read(engine, file):
            yield rows, order.places([column_at(rows, path) for path in self.layout.columns])

    def _written(self, place: Workplace, sorter: RowSorter, files: Bin) -> list[Add]:
        parts = max(1, round(sum(map(living_size, files)) / self.size))
        cuts = pairwise(sorter.cuts(parts))
        write = partial(self._write, place, sorter, self._put(files[0]))
        engine, root = place.engine, self.context.table_root

        def undo(adds: list[Add]) -> None:
            discard(engine, paths_of(root, adds))

        threads = min(place.threads, pa.cpu_count())
        found = list(map_ordered(write, cuts, threads, "writer", place.stop, undo))
        return [add for adds in found for add in adds]

    def _tagged(self, adds: list[Add]) -> list[Add]:
        if not self.layout.is_own:
            return adds
        tags = cube_tags(self.layout.names)
        return [msgspec.structs.replace(add, tags=tags, clustering_provider=CLUSTERING_PROVIDER) for add in adds]

    def _write(
        self,
        place: Workplace,
        sorter: RowSorter,
        put: Callable[[DataWriter, pa.RecordBatch], None],
        keys: tuple[int, int],
    ) -> list[Add]:
        with DataWriter(place.engine, self.context, lanes=1) as writer:
            for rows in sorter.between(*keys):
                place.check()
                put(writer, rows)
            return writer.finish()

    def _put(self, file: ScanFile) -> Callable[[DataWriter, pa.RecordBatch], None]:
        if not can_copy(self.context):
            return DataWriter.write
        values = RowCopier(self.context).partition_values(file)
        return lambda writer, rows: writer.write_physical(PhysicalBatch(values, rows))


def column_at(rows: pa.RecordBatch, path: _Path) -> pa.Array:
    """A column inside structs, null where one of these is."""
    top = rows.column(path[0])
    return pc.struct_field(top, path[1:]) if path[1:] else top


def _probes(columns: Iterable[_Path], sample: list[pa.Array]) -> list[Row]:
    count = len(sample[0])
    places = sorted({count * number // _PROBES for number in range(_PROBES)}) if count else []
    by_path = dict(zip(columns, sample, strict=True))
    return [{path: python_value(values[place]) for path, values in by_path.items()} for place in places]
