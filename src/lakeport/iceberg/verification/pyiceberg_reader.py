"""A mirror as read by pyiceberg: its files, the deletes applied to them, and the rows.

Independent of how mirrors are written. Only the bytes come through the engine's storage, so that one set of credentials
is enough. pyiceberg is an optional dependency: import this module where it is used.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.avro.decoder import BinaryDecoder
from pyiceberg.avro.reader import DoubleReader
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import ValidationError
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestFile,
    clear_manifest_cache,
)
from pyiceberg.table import FileScanTask, StaticTable
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.puffin import PuffinFile
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import StructType
from pyroaring import BitMap64

from lakeport.errors import ConversionError, CorruptTableError, LakeportError, MissingFileError
from lakeport.iceberg.table.metadata import encode_metadata
from lakeport.iceberg.targets.target import Published
from lakeport.iceberg.verification.pruning import RowsHeld, false_summary
from lakeport.kernel.engine import Engine, FileStatus

_POSITIONS = 1 << 16


def _read_double(_: DoubleReader, decoder: BinaryDecoder) -> float:
    (value,) = struct.unpack("<d", decoder.read(8))
    return float(value)


# pyiceberg (0.12) rounds doubles in manifests, used for partitions, to floats.
DoubleReader.read = _read_double  # type: ignore[assignment, method-assign]


class _EngineFiles(FileIO):
    """The engine's storage as a read-only pyiceberg FileIO."""

    def __init__(self, engine: Engine) -> None:
        super().__init__({})
        self.engine = engine

    def new_input(self, location: str) -> InputFile:
        return _EngineFile(self.engine, location)

    def new_output(self, location: str) -> OutputFile:
        raise NotImplementedError

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise NotImplementedError


class _EngineFile(InputFile):
    def __init__(self, engine: Engine, location: str) -> None:
        super().__init__(location)
        self._engine = engine

    def __len__(self) -> int:
        return self._status().size

    def exists(self) -> bool:
        return self._engine.storage.status(self.location) is not None

    def open(self, seekable: bool = True) -> InputStream:
        stream: InputStream = self._engine.storage.open_input(self._status())
        return stream

    def _status(self) -> FileStatus:
        status = self._engine.storage.status(self.location)
        if status is None:
            raise MissingFileError("the mirror names a file that does not exist", path=self.location)
        return status


@dataclass(frozen=True)
class MirrorFile:
    """A data file of a snapshot, and its deletes."""

    task: FileScanTask

    @property
    def path(self) -> str:
        return self.task.file.file_path

    @property
    def size(self) -> int:
        return self.task.file.file_size_in_bytes

    @property
    def record_count(self) -> int:
        return self.task.file.record_count

    @property
    def deletes(self) -> list[DataFile]:
        return list(self.task.delete_files)

    def shares_partition(self, deletes: DataFile) -> bool:
        """Whether a delete file is in this file's partition. NaN equals NaN."""
        one, other = ((file.spec_id, repr(file.partition)) for file in (deletes, self.task.file))
        return one == other


@dataclass(frozen=True)
class MirrorManifest:
    """A manifest of a snapshot, and its live entries."""

    file: ManifestFile
    entries: list[ManifestEntry]
    partition: StructType

    @property
    def path(self) -> str:
        return self.file.manifest_path

    @property
    def delete_files(self) -> list[DataFile]:
        return [file for file in self._files() if file.content != DataFileContent.DATA]

    @property
    def empty_files(self) -> list[str]:
        """The paths of data files without records."""
        return [
            file.file_path for file in self._files() if file.content == DataFileContent.DATA and not file.record_count
        ]

    def _files(self) -> Iterator[DataFile]:
        return (entry.data_file for entry in self.entries)

    def false_claims(self) -> Iterator[str]:
        """False claims of the manifest list about this manifest."""
        return false_summary(self.file, self.entries, self.partition)


class MirrorReader:
    """One snapshot of a mirror."""

    def __init__(self, engine: Engine, published: Published, snapshot_id: int) -> None:
        """Raises `ConversionError` if pyiceberg cannot open the table."""
        self._engine = engine
        try:
            metadata = TableMetadataUtil.parse_raw(encode_metadata(published.metadata).decode())
        except ValidationError as error:
            why = " ".join(str(error).split())[:300]
            raise ConversionError(
                f"pyiceberg cannot open the mirror to verify it: {why} [{published.path}]",
                reason="pyiceberg",
            ) from error
        table = StaticTable(("mirror",), metadata, published.path, _EngineFiles(engine), NoopCatalog("mirror"))
        self._scan = table.scan(snapshot_id=snapshot_id)
        clear_manifest_cache()  # it may hold another manifest list's view of the same manifests
        self._shared: dict[str, list[pa.RecordBatch]] = {}

    @property
    def schema(self) -> pa.Schema:
        """The columns of the snapshot."""
        return schema_to_pyarrow(self._scan.projection(), include_field_ids=False)

    def files(self) -> Iterator[MirrorFile]:
        """The files with records: pyiceberg skips the others. Raises `CorruptTableError`."""
        with _reading(self._snapshot.manifest_list):
            yield from map(MirrorFile, self._scan.plan_files())

    def manifests(self) -> Iterator[MirrorManifest]:
        """Raises `CorruptTableError`."""
        schema, specs = self._scan.projection(), self._scan.table_metadata.specs()
        with _reading(self._snapshot.manifest_list):
            for manifest in self._snapshot.manifests(self._scan.io):
                partition = specs[manifest.partition_spec_id].partition_type(schema)
                yield MirrorManifest(manifest, manifest.fetch_manifest_entry(self._scan.io), partition)

    @property
    def _snapshot(self) -> Snapshot:
        snapshot = self._scan.snapshot()
        assert snapshot is not None
        return snapshot

    def rows_held(self) -> RowsHeld:
        """A collector for the rows of one data file."""
        return RowsHeld(self._scan.projection())

    def rows(self, file: MirrorFile) -> Iterator[pa.RecordBatch]:
        """The live rows of a data file, in order. Raises whatever pyiceberg raises."""
        scan = self._scan
        reader = ArrowScan(scan.table_metadata, scan.io, scan.projection(), scan.row_filter)
        # Like its setting `downcast-ns-timestamp-to-us-on-write`: needed for INT96 in Spark's files.
        reader._downcast_ns_timestamp_to_us = True
        return reader.to_record_batches([file.task])

    def positions(self, file: MirrorFile, deletes: DataFile) -> Iterator[npt.NDArray[np.uint64]]:
        """The positions that a delete file deletes from a data file, in chunks; none if it only might have applied.
        Raises `CorruptTableError`."""
        with _reading(deletes.file_path):
            if deletes.file_format == FileFormat.PUFFIN:
                yield from _vector_positions(self._engine, deletes, file.path)
            elif deletes.lower_bounds == deletes.upper_bounds:
                yield from _parquet_positions(self._read_parts(deletes), file.path)
            else:  # read once for all its data files, which are mostly consecutive
                if deletes.file_path not in self._shared:
                    self._shared = {deletes.file_path: list(self._read_parts(deletes))}
                yield from _parquet_positions(self._shared[deletes.file_path], file.path)

    def _read_parts(self, deletes: DataFile) -> Iterator[pa.RecordBatch]:
        status = FileStatus(deletes.file_path, deletes.file_size_in_bytes)
        with self._engine.storage.open_input(status) as source, pq.ParquetFile(source) as parquet:
            yield from parquet.iter_batches(_POSITIONS, columns=["file_path", "pos"])


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Raises `CorruptTableError` for any error in pyiceberg."""
    try:
        yield
    except LakeportError:
        raise
    except Exception as error:
        why = " ".join(f"{type(error).__name__} {error}".split())[:300]
        raise CorruptTableError(f"pyiceberg cannot read the mirror: {why}", path=path) from error


def _parquet_positions(parts: Iterable[pa.RecordBatch], data_file: str) -> Iterator[npt.NDArray[np.uint64]]:
    for batch in parts:
        rows = batch.filter(pa.compute.equal(batch.column("file_path"), data_file))
        if rows.num_rows:
            yield rows.column("pos").to_numpy().view(np.uint64)


def _vector_positions(engine: Engine, deletes: DataFile, data_file: str) -> Iterator[npt.NDArray[np.uint64]]:
    """See "deletion-vector-v1" in the Puffin specification."""
    puffin = PuffinFile(engine.storage.read(deletes.file_path))
    for blob in puffin.footer.blobs:
        if blob.properties.get("referenced-data-file") == data_file:
            positions = _decode_vector(puffin.get_blob_payload(blob), deletes.file_path)
            for start in range(0, len(positions), _POSITIONS):
                yield positions[start : start + _POSITIONS]


def _decode_vector(blob: bytes, path: str) -> npt.NDArray[np.uint64]:
    payload, checksum = blob[4:-4], int.from_bytes(blob[-4:], "big")
    if zlib.crc32(payload) != checksum or int.from_bytes(blob[:4], "big") != len(payload):
        raise CorruptTableError("the deletion vector is damaged: its size or its CRC-32 is wrong", path=path)
    bitmap = BitMap64.deserialize(payload[4:])
    return np.asarray(bitmap.to_array()).astype(np.uint64, copy=False)
