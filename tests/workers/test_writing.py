"""Rows into data files: as many and as large as they should be, with bounded memory; nothing stays of what fails."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.engine import default_engine, engine_over
from lakeport.engine.storage.memory import MemoryStorage
from lakeport.errors import ConstraintError, StorageError
from lakeport.kernel.engine import OutputFile
from lakeport.kernel.transaction import create_table
from lakeport.kernel.write import WriteContext
from lakeport.testing.builder import struct
from lakeport.testing.counting import CountingStorage
from lakeport.workers.writing import DataWriter, write_rows
from tests.conftest import ROOT as PROJECT

SCHEMA = struct(id="long", key="string")


def context_at(path: Path | str, partition_by: tuple[str, ...] = (), **properties: str) -> WriteContext:
    transaction = create_table(default_engine(), str(path), SCHEMA, partition_by, properties)
    return transaction.write_context()


def batches(count: int, rows: int, keys: int = 1) -> Iterator[pa.RecordBatch]:
    for number in range(count):
        ids = np.arange(number * rows, (number + 1) * rows)
        yield pa.record_batch({"id": ids, "key": pa.array((ids % keys).astype(str))})


def files_in(path: Path) -> list[Path]:
    return [file for file in path.rglob("*") if file.is_file()]


def test_small_batches_become_one_file_with_one_row_group(tmp_path: Path) -> None:
    [add] = write_rows(default_engine(), context_at(tmp_path), batches(1000, 7))
    [file] = files_in(tmp_path)
    metadata = pq.ParquetFile(file).metadata
    assert (metadata.num_rows, metadata.num_row_groups) == (7000, 1)
    assert add.size == file.stat().st_size
    stats = json.loads(add.stats or "")
    assert (stats["numRecords"], stats["minValues"]["id"], stats["maxValues"]["id"]) == (7000, 0, 6999)
    assert pq.read_table(file)["id"].to_pylist() == list(range(7000))


def test_a_stream_of_single_rows_takes_time_in_proportion_to_its_length(tmp_path: Path) -> None:
    [add] = write_rows(default_engine(), context_at(tmp_path), batches(30_000, 1))
    assert json.loads(add.stats or "")["numRecords"] == 30_000


def test_no_rows_are_no_file(tmp_path: Path) -> None:
    assert write_rows(default_engine(), context_at(tmp_path), iter(())) == []
    assert write_rows(default_engine(), context_at(tmp_path), batches(3, 0)) == []
    assert files_in(tmp_path) == []


def test_a_file_ends_at_the_target_size(tmp_path: Path) -> None:
    context = context_at(tmp_path, **{"delta.targetFileSize": "1mb"})
    noise = np.random.default_rng(1)
    stream = (
        pa.record_batch({"id": noise.integers(0, 1 << 60, 300_000), "key": pa.array(["x"] * 300_000)})
        for _ in range(12)
    )
    adds = write_rows(default_engine(), context, stream)
    assert len(adds) > 3
    assert sum(json.loads(add.stats or "")["numRecords"] for add in adds) == 3_600_000


@pytest.mark.parametrize(("gathers", "files"), [("true", 1), ("false", 2)])
def test_a_table_that_gathers_rows_gets_files_of_the_target_size_one_after_another(
    tmp_path: Path, gathers: str, files: int
) -> None:
    context = context_at(tmp_path, **{"delta.autoOptimize.optimizeWrite": gathers})
    noise = np.random.default_rng(1)
    rows = pa.record_batch({"id": noise.integers(0, 1 << 60, 1_000_000), "key": pa.array(["x"] * 1_000_000)})
    adds = write_rows(default_engine(), context, [rows] * 12, lanes=None if gathers == "true" else 2)
    assert len(adds) == files
    assert sum(json.loads(add.stats or "")["numRecords"] for add in adds) == 12_000_000


def test_two_thousand_partitions_get_one_file_each(tmp_path: Path) -> None:
    adds = write_rows(default_engine(), context_at(tmp_path, ("key",)), batches(4, 100_000, keys=2000))
    assert len(adds) == 2000
    assert {add.partition_values["key"] for add in adds} == {str(key) for key in range(2000)}
    assert {json.loads(add.stats or "")["numRecords"] for add in adds} == {200}


def test_limited_memory_is_kept_by_writing_one_file_at_a_time(tmp_path: Path) -> None:
    """Unlimited, a file gets another one beside it once it has 64 MB."""
    with DataWriter(default_engine(), context_at(tmp_path), memory=1) as writer:
        for batch in list(batches(1, 500_000)) * 30:
            writer.write(batch)
        adds = writer.finish()
    assert [json.loads(add.stats or "")["numRecords"] for add in adds] == [15_000_000]


def test_a_partition_that_grows_large_is_written_while_others_wait(tmp_path: Path) -> None:
    def skewed() -> Iterator[pa.RecordBatch]:
        for number in range(10):
            keys = ["large"] * 300_000 + [f"small {number}"] * 10
            yield pa.record_batch({"id": np.arange(len(keys)), "key": pa.array(keys)})

    adds = write_rows(default_engine(), context_at(tmp_path, ("key",)), skewed())
    counts: dict[str | None, int] = {}
    for add in adds:
        counts[add.partition_values["key"]] = (
            counts.get(add.partition_values["key"], 0) + json.loads(add.stats or "")["numRecords"]
        )
    assert counts == {"large": 3_000_000} | {f"small {n}": 10 for n in range(10)}


MEMORY = """
import sys
import numpy as np
import pyarrow as pa
from lakeport import tables

def rows():
    noise = np.random.default_rng(1)
    for _ in range({batches}):
        ids = noise.integers(0, 1 << 60, 100_000)
        yield pa.record_batch(dict(id=ids, a=ids + 1, b=ids + 2, c=ids + 3, key=noise.integers(0, {keys}, 100_000)))

result = tables.create(sys.argv[1], rows(), partition_by={partition_by})
assert result.metrics["numOutputRows"] == {batches} * 100_000
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")][0])
"""


def peak_memory(path: Path, batches: int, keys: int, partition_by: list[str]) -> int:
    """Megabytes that a process needed at most to write so many batches of 4 MB."""
    script = MEMORY.format(batches=batches, keys=keys, partition_by=partition_by)
    command = [sys.executable, "-c", script, str(path / "table")]
    output = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=PROJECT).stdout
    return int(output) // 1024


def test_twenty_million_rows_are_written_with_bounded_memory(tmp_path: Path) -> None:
    assert peak_memory(tmp_path, batches=200, keys=10, partition_by=[]) < 550


@pytest.mark.exhaustive(instead="twenty million rows")
def test_rows_of_many_partitions_are_written_with_bounded_memory(tmp_path: Path) -> None:
    """1.4 GB of rows, of which 256 MB may wait."""
    assert peak_memory(tmp_path, batches=350, keys=300, partition_by=["key"]) < 900


# What fails


def test_nothing_stays_of_rows_that_break_a_constraint(tmp_path: Path) -> None:
    context = context_at(tmp_path, ("key",), **{"delta.constraints.small": "id < 900000"})
    before = threading.active_count()
    with pytest.raises(ConstraintError, match="row 900000 violates the constraint 'small'") as caught:
        write_rows(default_engine(), context, batches(10, 100_000, keys=5))
    assert caught.value.row == 900_000
    assert files_in(tmp_path) == []
    assert threading.active_count() == before


def test_nothing_stays_when_the_source_fails(tmp_path: Path) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from batches(8, 100_000)
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        write_rows(default_engine(), context_at(tmp_path), broken())
    assert files_in(tmp_path) == []


def test_nothing_stays_of_a_writer_that_is_left_without_an_end(tmp_path: Path) -> None:
    def give_up() -> None:
        with DataWriter(default_engine(), context_at(tmp_path)) as writer:
            for batch in batches(8, 100_000):
                writer.write(batch)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        give_up()
    assert files_in(tmp_path) == []


class SmallStorage(CountingStorage):
    """Files in memory, of which all together have room for `room` bytes."""

    def __init__(self, room: int) -> None:
        super().__init__(MemoryStorage())
        self.room = room

    def open_output(self, path: str) -> OutputFile:
        return _SmallOutput(self, path, super().open_output(path))

    def delete(self, paths: object) -> None:
        raise StorageError("the storage does not answer", path="x")


class _SmallOutput:
    def __init__(self, storage: SmallStorage, path: str, output: OutputFile) -> None:
        self._storage, self._path, self._output = storage, path, output

    def write(self, data: bytes | memoryview) -> int:
        self._storage.room -= len(data)
        if self._storage.room < 0:
            raise StorageError("the disk is full", path=self._path)
        return self._output.write(data)

    def close(self) -> None:
        self._output.close()

    def abort(self) -> None:
        self._output.abort()


@pytest.mark.parametrize("partition_by", [(), ("key",)])
def test_an_error_of_the_storage_is_told_as_it_is(partition_by: tuple[str, ...]) -> None:
    """Also if what was written cannot be removed."""
    engine = engine_over(SmallStorage(100_000))
    context = context_at("memory://t", partition_by)
    before = threading.active_count()
    with pytest.raises(StorageError, match="the disk is full"):
        write_rows(engine, context, batches(10, 100_000, keys=50))
    assert threading.active_count() == before
