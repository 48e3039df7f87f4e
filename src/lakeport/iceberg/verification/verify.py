"""`verify`: compare a mirror with its Delta table by files, deleted positions and, optionally, rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeport.engine import default_engine
from lakeport.errors import ConversionError, CorruptTableError, LakeportError, VersionNotFoundError
from lakeport.iceberg.delta.change import InternalDeletionVector
from lakeport.iceberg.table.metadata import current_snapshot, mirrored_version, snapshots_by_version, version_of
from lakeport.iceberg.table.schema import Json
from lakeport.iceberg.targets import open_mirror
from lakeport.iceberg.targets.target import Published, Target
from lakeport.iceberg.verification.comparison import first_other_position, first_other_row, other_columns
from lakeport.iceberg.verification.delta_reader import SecondOpinion, ask_another_reader
from lakeport.iceberg.verification.duckdb_reader import find_difference
from lakeport.kernel.data_files import decode_num_records
from lakeport.kernel.engine import Engine
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.snapshot import Snapshot
from lakeport.locations import is_url
from lakeport.workers.reading import RowReader, read_rows

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile

    from lakeport.iceberg.verification.pyiceberg_reader import MirrorFile, MirrorReader

Positions = npt.NDArray[np.uint64]
Progress = Callable[[int, int], object]
"""Called with the number of files compared so far, and the total."""


@dataclass(frozen=True)
class Difference:
    """A difference between the mirror and the Delta table."""

    path: str
    """The data file concerned; otherwise the mirror's location."""
    what: str


@dataclass(frozen=True)
class Verification:
    """The result of `verify`."""

    version: int
    """The Delta version compared."""
    snapshot_id: int
    """The mirror's snapshot of that version."""
    files: int
    deleted_rows: int
    """The Delta table's data files, and the deleted rows in them."""
    rows_compared: bool
    differences: tuple[Difference, ...]
    second_reader: str | None = None
    """The independent Delta reader that found the same rows; None if none was used."""
    no_second_reader: str | None = None
    """Why no such reader could be used; None if one was, or if rows were not compared."""

    @property
    def is_equal(self) -> bool:
        return not self.differences


def verify(
    target: str,
    *,
    out: str | None = None,
    catalog: Any = None,
    table: str | None = None,
    version: int | None = None,
    rows: bool = False,
    duckdb: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
    engine: Engine | None = None,
) -> Verification:
    """Compare the mirror of the Delta table at a path or a URL, as read by pyiceberg, with the table: its data files,
    and the number and positions of deleted rows in each. With `rows`, also compare all rows in every column; with
    `duckdb`, also the rows that DuckDB reads from a mirror on a local disk.

    A bug in Lakeport's reader would show in the mirror too. So equal rows are also compared with those of deltalake, if
    it is installed and can read the table; see `second_reader`.

    `version` is the Delta version to compare. By default, the mirror's current snapshot, which readers see, is compared
    with the version that the mirror claims to show. `out`, `catalog` and `table` locate the mirror, as for `convert`.

    Raises `ConversionError` if there is no mirror, if pyiceberg cannot open it (for example with a variant column), or
    if DuckDB lacks its extension; `ValueError` if DuckDB is to read a mirror that is not on a local disk;
    `VersionNotFoundError` if the mirror has no snapshot of the version, or the Delta table no longer has it."""
    engine = engine or default_engine(storage_options)
    source, place = open_mirror(engine, target, out, catalog, table)
    from lakeport.iceberg.verification.pyiceberg_reader import MirrorReader

    published, shown, mirrored = _find_snapshot(place, version)
    snapshot_id = mirrored["snapshot-id"]
    comparison = _Comparison(
        source.snapshot_at_version(shown), MirrorReader(engine, published, snapshot_id), with_rows=rows
    )
    differences = (
        *_compare_version(mirrored, shown, place.location),
        *comparison.differences(place.location, progress),
        *(comparison.differences_in_duckdb(published.path, snapshot_id) if duckdb else ()),
    )
    found = Verification(shown, snapshot_id, comparison.files, comparison.deleted_rows, rows or duckdb, differences)
    return _confirm(found, comparison, storage_options or {}) if found.rows_compared and found.is_equal else found


def _confirm(found: Verification, comparison: _Comparison, options: Mapping[str, Any]) -> Verification:
    opinion = comparison.ask_another_reader(found.version, options)
    differences = tuple(Difference(comparison.root, what) for what in (opinion.difference,) if what)
    return replace(found, differences=differences, second_reader=opinion.reader, no_second_reader=opinion.why_not)


def _find_snapshot(target: Target, version: int | None) -> tuple[Published, int, Json]:
    """The published table, the version to compare, and its snapshot."""
    published = target.load()
    shown = None if published is None else mirrored_version(published.metadata)
    if published is None or shown is None:
        raise ConversionError(
            f"there is no mirror to verify: convert the table [{target.location}]", reason="no mirror"
        )
    snapshots = snapshots_by_version(published.metadata)
    wanted = shown if version is None else version
    found = current_snapshot(published.metadata) if version is None else snapshots.get(version)
    if found is None:
        raise VersionNotFoundError(
            f"the mirror has no snapshot of version {wanted} [{target.location}]",
            version=wanted,
            earliest=min(snapshots, default=None),
            latest=shown,
        )
    return published, wanted, found


def _compare_version(snapshot: Json, expected: int, location: str) -> Iterator[Difference]:
    found = version_of(snapshot)
    if found != expected:
        what = "that Lakeport did not make" if found is None else f"of version {found}"
        yield Difference(location, f"readers see a snapshot {what}, the mirror should show version {expected}")


class _Comparison:
    """A Delta version and the mirror's snapshot of it."""

    def __init__(self, snapshot: Snapshot, mirror: MirrorReader, *, with_rows: bool) -> None:
        self._engine, self.root, self._mirror = snapshot.engine, snapshot.root, mirror
        scan = snapshot.scan_builder().with_stats().build()
        self._expected = {file.path: file for file in scan.files()}
        self._reader, self._with_rows = RowReader.for_scan(scan), with_rows
        self._deleted: dict[str, int] = {}
        """Rows deleted by each of the mirror's delete files that may apply to a data file."""

    @property
    def files(self) -> int:
        return len(self._expected)

    @property
    def deleted_rows(self) -> int:
        vectors = (file.deletion_vector for file in self._expected.values())
        return sum(vector.cardinality for vector in vectors if vector)

    def differences(self, location: str, progress: Progress | None) -> Iterator[Difference]:
        if what := other_columns(self._reader.output, self._mirror.schema):
            yield Difference(location, f"in the mirror, {what}")
        seen: set[str] = set()
        for count, found in enumerate(self._mirror.files(), start=1):
            yield from self._compare(found, is_repeated=found.path in seen)
            seen.add(found.path)
            if progress is not None:
                progress(count, self.files)
        yield from self._compare_unseen(self._expected.keys() - seen)
        yield from self._compare_manifests()

    def differences_in_duckdb(self, metadata_path: str, snapshot_id: int) -> Iterator[Difference]:
        if is_url(metadata_path):
            raise ValueError("DuckDB can verify only mirrors on disks: leave it out")
        if what := find_difference(metadata_path, snapshot_id, self._read_table):
            yield Difference(metadata_path, f"in DuckDB, {what}")

    def ask_another_reader(self, version: int, options: Mapping[str, Any]) -> SecondOpinion:
        return ask_another_reader(self.root, version, self._read_table(), options)

    def _read_table(self) -> pa.RecordBatchReader:
        rows = read_rows(self._engine, self._reader, self._expected.values())
        return pa.RecordBatchReader.from_batches(self._reader.output, rows)

    def _compare_unseen(self, paths: Set[str]) -> Iterator[Difference]:
        manifests = self._mirror.manifests() if paths else ()
        empty = {path for manifest in manifests for path in manifest.empty_files}
        for path in sorted(paths):
            if path not in empty:
                yield Difference(path, "the mirror lacks the file")
            elif any(batch.num_rows for batch in self._reader.read(self._engine, self._expected[path])):
                yield Difference(path, "the mirror lists the file as empty, but it is not")

    def _compare_manifests(self) -> Iterator[Difference]:
        """Call after all data files have been compared."""
        seen: set[str] = set()
        for manifest in self._mirror.manifests():
            yield from (Difference(manifest.path, what) for what in manifest.false_claims())
            for deletes in manifest.delete_files:
                if what := self._compare_delete_file(deletes, is_repeated=deletes.file_path in seen):
                    yield Difference(deletes.file_path, what)
                seen.add(deletes.file_path)

    def _compare_delete_file(self, found: DataFile, *, is_repeated: bool) -> str | None:
        deleted = self._deleted.get(found.file_path)
        if is_repeated:
            return "the mirror has the delete file twice"
        if deleted is None:
            return "the delete file applies to no data file of the mirror"
        return None if deleted == found.record_count else f"{deleted} rows are deleted by it, not {found.record_count}"

    def _compare(self, found: MirrorFile, *, is_repeated: bool) -> Iterator[Difference]:
        expected = self._expected.get(found.path)
        if expected is None:
            yield Difference(found.path, "the mirror has a file that the table does not have")
            return
        if is_repeated:
            yield Difference(found.path, "the mirror has the file twice")
            return
        whats = [*_compare_numbers(expected, found), *self._compare_deletes(expected, found)]
        whats += self._compare_rows(expected, found) if not whats else []
        yield from (Difference(found.path, what) for what in whats)

    def _compare_deletes(self, expected: ScanFile, found: MirrorFile) -> Iterator[str]:
        vector = InternalDeletionVector.of(expected, self.root)
        lacking = 0 if vector is None else vector.count_records_deleted
        try:
            applied = [(deletes, self._deletes_from(found, deletes)) for deletes in found.deletes]
            streams = [(deletes, stream) for deletes, stream in applied if stream is not None]
            if len(streams) > 1:
                yield f"{len(streams)} delete files apply to it, not one"
                return
            counted = _Counted(streams[0][1] if streams else ())
            other = first_other_position(vector.ordinals(self._engine) if vector else (), counted)
            number = counted.finish()
        except CorruptTableError as error:
            yield str(error)
            return
        for deletes, _ in streams:
            self._deleted[deletes.file_path] += number
            if not found.shares_partition(deletes):
                yield "its delete file is in another partition, so filters may miss it"
        if number != lacking:
            what = f"lacks {lacking}" if lacking else "has all of them"
            yield f"{number or 'no'} row{'s are' if number else ' is'} deleted, the table {what}"
        if number and lacking and other is not None:
            yield f"the row at position {other} is deleted in one of the two only"

    def _deletes_from(self, found: MirrorFile, deletes: DataFile) -> Iterator[Positions] | None:
        """The positions; None if the delete file does not cover this data file."""
        self._deleted.setdefault(deletes.file_path, 0)
        positions = self._mirror.positions(found, deletes)
        first = next(positions, None)
        return None if first is None else chain([first], positions)

    def _compare_rows(self, expected: ScanFile, found: MirrorFile) -> Iterator[str]:
        if not self._with_rows:
            return
        held = self._mirror.rows_held()
        try:
            other = first_other_row(self._reader.read(self._engine, expected), held.watch(self._mirror.rows(found)))
            deleted = expected.deletion_vector.cardinality if expected.deletion_vector else 0
            whats = [] if other else [*held.false_metrics(found.task.file, deleted)]
        except LakeportError:
            raise
        except Exception as error:  # any error in the other reader is a finding about the mirror
            yield f"pyiceberg cannot read its rows: {error}"
            return
        if other is not None:
            yield f"live row {other[0]}: in the mirror, {other[1]}"
        yield from whats


class _Counted:
    """A stream that counts its positions."""

    def __init__(self, parts: Iterable[Positions]) -> None:
        self._parts, self._count = iter(parts), 0

    def __iter__(self) -> Iterator[Positions]:
        for part in self._parts:
            self._count += len(part)
            yield part

    def finish(self) -> int:
        """Drain the stream and return the count."""
        return self._count + sum(map(len, self._parts))


def _compare_numbers(expected: ScanFile, found: MirrorFile) -> Iterator[str]:
    if found.size != expected.size:
        yield f"it has {found.size} bytes, but {expected.size} in the table"
    records = decode_num_records(expected.stats)
    if records is not None and found.record_count != records:
        yield f"it has {found.record_count} records, but {records} in the table"
