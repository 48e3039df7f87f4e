"""Delete files of both format versions, read back by pyiceberg: the rows of every real deletion vector."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from pyroaring import BitMap64

from lakeport.engine import default_engine
from lakeport.errors import CorruptTableError, LakeportError
from lakeport.iceberg.delta.change import InternalDeletionVector
from lakeport.iceberg.snapshots.deletes import DeleteFile, write_position_deletes, write_puffin
from lakeport.kernel.deletion_vectors import encode_deletion_vector, frame_payload, read_deletion_vector
from lakeport.kernel.engine import Engine
from lakeport.kernel.snapshot import Table
from lakeport.version import __version__
from tests.acceptance.real_tables import NAMES, path_of
from tests.examples import examples
from tests.iceberg.vectors import DATA_FILE, described, encode, inline_vector, position_sets, vector_in_file

pytest.importorskip("pyiceberg")
ENGINE = default_engine()
WRITERS: dict[str, Callable[[Engine, InternalDeletionVector, str], DeleteFile]] = {
    "parquet": lambda engine, vector, path: write_position_deletes(engine, [vector], path),
    "puffin": write_puffin,
}
SOME = [0, 4, 7, 70_000, 5_000_000_000]
both_formats = pytest.mark.parametrize("kind", list(WRITERS))


def read_back(file: DeleteFile) -> dict[str, list[int]]:
    """What pyiceberg finds in a delete file, by data file."""
    from pyiceberg.io.pyarrow import PyArrowFileIO, _read_deletes
    from pyiceberg.manifest import FileFormat

    if file.format == "puffin" and file.record_count and _is_beyond_pyiceberg(file):
        return {file.data_files[0]: list(_bitmap_in(file))}
    entry: Any = SimpleNamespace(file_path=file.path, file_format=FileFormat(file.format.upper()))
    return {path: positions.to_pylist() for path, positions in _read_deletes(PyArrowFileIO(), entry).items()}


def _bitmap_in(file: DeleteFile) -> BitMap64:
    """The blob of a Puffin file, less its size and its magic number, as pyroaring decodes it."""
    from pyiceberg.table.puffin import PuffinFile

    puffin = PuffinFile(Path(file.path).read_bytes())
    return BitMap64.deserialize(puffin.get_blob_payload(puffin.footer.blobs[0])[8:-4])


def _is_beyond_pyiceberg(file: DeleteFile) -> bool:
    """pyiceberg 0.12 fails where no position is below 2**32, and makes a bitmap for each 2**32 below the last one."""
    bitmap = _bitmap_in(file)
    return bool(bitmap.min() >> 32 or bitmap.max() >> 40)


def write(kind: str, vector: InternalDeletionVector, folder: Path) -> DeleteFile:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{len(list(folder.iterdir()))}.{kind}"
    return WRITERS[kind](ENGINE, vector, str(path))


@both_formats
@given(positions=position_sets.filter(len))
@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pyiceberg_reads_the_positions_back(kind: str, positions: npt.NDArray[np.uint64], tmp_path: Path) -> None:
    vector = inline_vector(encode(positions.tolist()), len(positions))
    file = write(kind, vector, tmp_path)
    assert read_back(file) == {DATA_FILE: positions.tolist()}
    assert (file.record_count, file.data_files) == (len(positions), (DATA_FILE,))
    assert file.file_size == Path(file.path).stat().st_size


def test_a_position_delete_file_has_the_reserved_ids_and_equal_bounds_of_its_path(tmp_path: Path) -> None:
    file = write("parquet", inline_vector(encode(SOME), len(SOME)), tmp_path)
    stored = pq.ParquetFile(file.path)
    fields = {f.name: (f.metadata[b"PARQUET:field_id"], f.nullable, str(f.type)) for f in stored.schema_arrow}
    assert fields == {
        "file_path": (b"2147483546", False, "string"),
        "pos": (b"2147483545", False, "int64"),
    }
    path, pos = (stored.metadata.row_group(0).column(i).statistics for i in (0, 1))
    assert (path.min, path.max, pos.min, pos.max) == (DATA_FILE, DATA_FILE, 0, 5_000_000_000)
    assert (file.content_offset, file.content_size) == (None, None)


def test_a_puffin_file_holds_the_bytes_of_delta_and_a_footer_that_describes_them(tmp_path: Path) -> None:
    payload = encode(SOME)
    vector = vector_in_file(ENGINE, f"{tmp_path}/v.bin", payload, len(SOME), gap=9)
    file = write("puffin", vector, tmp_path / "out")
    data = Path(file.path).read_bytes()
    assert file.content_offset is not None
    assert file.content_size is not None
    assert data[file.content_offset :][: file.content_size] == frame_payload(payload)
    footer = data[file.content_offset + file.content_size :]
    length = int.from_bytes(footer[-12:-8], "little")
    assert (data[:4], footer[:4], footer[-8:-4], footer[-4:]) == (b"PFA1", b"PFA1", bytes(4), b"PFA1")
    assert json.loads(footer[4 : 4 + length]) == {
        "blobs": [
            {
                "type": "deletion-vector-v1",
                "fields": [2147483645],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": 4,
                "length": len(payload) + 8,
                "properties": {"referenced-data-file": DATA_FILE, "cardinality": "5"},
            }
        ],
        "properties": {"created-by": f"lakeport {__version__}"},
    }


@both_formats
def test_no_file_stays_of_a_vector_that_is_damaged(kind: str, tmp_path: Path) -> None:
    vector = described(inline_vector(encode(range(0, 200_000, 3)), 66_667), cardinality=66_668)
    with pytest.raises(CorruptTableError):
        write(kind, vector, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


@both_formats
def test_a_path_of_any_characters_is_written_as_it_is(kind: str, tmp_path: Path) -> None:
    path = 's3://bücket/a b%20c="1"/é\\n😀.parquet'
    vector = InternalDeletionVector(path, inline_vector(encode(SOME), len(SOME)).descriptor, None)
    assert read_back(write(kind, vector, tmp_path)) == {path: SOME}


_MEASURED = """
import resource, sys, time
import numpy as np, pyarrow.parquet
from lakeport.engine import default_engine
from lakeport.iceberg.snapshots import deletes
from lakeport.iceberg.delta.change import InternalDeletionVector
from lakeport.kernel.deletion_vectors import DeletionVectorDescriptor
size, cardinality = int(sys.argv[3]), int(sys.argv[4])
vector = InternalDeletionVector("/data", DeletionVectorDescriptor("p", sys.argv[1], size, cardinality, 1), sys.argv[1])
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
is_puffin = sys.argv[2].endswith("puffin")
write, given = (deletes.write_puffin, vector) if is_puffin else (deletes.write_position_deletes, [vector])
before, start = peak(), time.process_time()
file = write(default_engine(), given, sys.argv[2])
print(file.record_count, peak() - before, time.process_time() - start)
"""


@pytest.mark.parametrize(("kind", "megabytes", "seconds"), [("parquet", 150, 3.0), ("puffin", 40, 0.5)])
def test_ten_million_positions_take_little_time_and_memory(
    kind: str, megabytes: int, seconds: float, tmp_path: Path
) -> None:
    positions = np.flatnonzero(np.random.default_rng(7).random(100_000_000, dtype=np.float32) < 0.1).astype(np.uint64)
    payload = encode_deletion_vector(positions)
    source = f"{tmp_path}/v.bin"
    vector_in_file(ENGINE, source, payload, len(positions))
    arguments = [source, f"{tmp_path}/out.{kind}", str(len(payload)), str(len(positions))]
    done = subprocess.run([sys.executable, "-c", _MEASURED, *arguments], capture_output=True, text=True, check=True)
    count, kilobytes, taken = done.stdout.split()
    assert int(count) == len(positions) > 9_000_000
    assert int(kilobytes) < megabytes * 1024
    assert float(taken) < seconds


# Real tables


def vectors_of(root: Path) -> Iterator[tuple[InternalDeletionVector, str]]:
    """The deletion vectors of a table at every version that can be read."""
    table = Table.for_path(ENGINE, str(root))
    seen: set[tuple[str, str]] = set()
    for version in range(table.latest_snapshot().version + 1):
        try:
            snapshot = table.snapshot_at_version(version)
            files = list(snapshot.scan_builder().build().files())
        except LakeportError:
            continue
        for file in files:
            vector = InternalDeletionVector.of(file, snapshot.root)
            if vector and (key := (file.path, vector.descriptor.unique_id)) not in seen:
                seen.add(key)
                yield vector, snapshot.root


def test_every_deletion_vector_of_the_real_tables_is_read_back(tmp_path: Path) -> None:
    damaged, converted, kinds = 0, 0, set()
    for name in NAMES:
        try:
            found = list(vectors_of(Path(path_of(name))))
        except LakeportError:
            continue
        for vector, root in found:
            try:
                expected = read_deletion_vector(vector.descriptor, root, ENGINE.storage).positions.tolist()
            except CorruptTableError:
                damaged += 1
                for writer in WRITERS.values():
                    with pytest.raises(CorruptTableError):
                        writer(ENGINE, vector, str(tmp_path / "none"))
                continue
            for kind in WRITERS:
                assert read_back(write(kind, vector, tmp_path / kind)) == {vector.data_file_path: expected}
            converted += 1
            kinds.add(vector.descriptor.storage_type)
    assert converted > 20
    assert kinds >= {"u", "i"}
    assert damaged
