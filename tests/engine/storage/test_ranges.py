"""Ranges of remote files, fetched ahead of their reader."""

import random
import subprocess
import sys
from itertools import pairwise
from threading import Barrier, Event, Lock, current_thread

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.engine.parquet import ParquetFiles
from lakeport.engine.storage.memory import MemoryStorage
from lakeport.engine.storage.pools import RequestPool
from lakeport.engine.storage.ranges import RangeInput, open_ranges
from lakeport.errors import StorageError
from lakeport.kernel.engine import FileSplit, FileStatus

MB = 1 << 20
CONTENT = random.Random(3).randbytes(40 * MB)
FILE = FileStatus("test://x", len(CONTENT))


class Remote(MemoryStorage):
    """Files that are read by ranges, which are recorded."""

    def __init__(self, content: bytes = CONTENT, path: str = FILE.path) -> None:
        super().__init__()
        self.write(path, content)
        self.asked: list[tuple[int, int]] = []
        self._asking = Lock()

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        with self._asking:
            self.asked.append((start, start + (length or 0)))
        return super().read(path, start, length)

    def open_input(self, file: FileStatus) -> pa.NativeFile:
        return open_ranges(self, file)


def opened(storage: Remote) -> RangeInput:
    source = open_ranges(storage, FILE)
    assert isinstance(source, RangeInput)
    return source


def read(source: RangeInput, start: int, end: int) -> bytes:
    source.seek(start)
    data: bytes = source.read(end - start)
    return data


def test_ranges_are_fetched_in_pieces_and_neighbours_together() -> None:
    storage = Remote()
    with opened(storage) as source:
        source.fetch_ahead([(0, 10), (100_000, 100_010), (5 * MB, 25 * MB), (30 * MB, 30 * MB + 7)])
        for start, end in [(0, 10), (100_000, 100_010), (5 * MB, 25 * MB), (30 * MB, 30 * MB + 7)]:
            assert read(source, start, end) == CONTENT[start:end]
    cuts = range(5 * MB, 26 * MB, 4 * MB)
    assert sorted(storage.asked) == [
        (0, 100_010), *pairwise(cuts), (30 * MB, 30 * MB + 7),
    ]  # fmt: skip


@pytest.mark.parametrize("again", [(0, 10), (3, 7), (8, 12), (2 * MB, 2 * MB + 5)])
def test_other_reads_are_requests_of_their_own(again: tuple[int, int]) -> None:
    storage = Remote()
    with opened(storage) as source:
        source.fetch_ahead([(0, 10)])
        assert read(source, 0, 10) == CONTENT[:10]
        assert read(source, *again) == CONTENT[slice(*again)]
    assert storage.asked == [(0, 10), again]


def test_only_so_much_is_fetched_before_it_is_read() -> None:
    content = bytes(200 * MB)
    storage = Remote(content)
    source = open_ranges(storage, FileStatus(FILE.path, len(content)))
    assert isinstance(source, RangeInput)
    with source:
        source.fetch_ahead([(0, len(content))])
        assert len(read(source, 0, 8 * MB)) == 8 * MB
        assert sum(end - start for start, end in storage.asked) <= 80 * MB
        assert len(read(source, 8 * MB, len(content))) == 192 * MB
    assert sum(end - start for start, end in storage.asked) == len(content)


def test_pieces_that_nobody_reads_are_given_up() -> None:
    going, gone = Event(), Event()

    class Slow(Remote):
        def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
            going.set()
            assert gone.wait(10)
            return super().read(path, start, length)

    storage = Slow(bytes(400 * MB))
    others = [open_ranges(storage, FileStatus(FILE.path, 400 * MB)) for _ in range(5)]
    for source in others:
        source.fetch_ahead([(0, 400 * MB)])  # 40 requests, of which 16 are under way
    assert going.wait(10)
    for source in others:
        source.close()
    gone.set()
    with opened(Remote()) as source:
        source.fetch_ahead([(0, 10)])
        assert read(source, 0, 10) == CONTENT[:10]
    assert len(storage.asked) <= 16


def test_an_error_while_fetching_ahead_is_that_of_the_read() -> None:
    class Failing(Remote):
        def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
            raise StorageError("broken", path=path)

    with opened(Failing()) as source:
        source.fetch_ahead([(0, 10)])
        with pytest.raises(StorageError, match="broken"):
            read(source, 0, 10)


def test_a_storage_that_hangs_does_not_hold_up_another() -> None:
    gone = Event()

    class Hanging(Remote):
        def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
            assert gone.wait(30)
            return b""

    hanging = [open_ranges(Hanging(), FILE) for _ in range(3)]  # 24 requests; 16 run
    for source in hanging:
        source.fetch_ahead([(0, 32 * MB)])
    try:
        with opened(Remote()) as source:
            source.fetch_ahead([(0, 20 * MB)])
            assert read(source, 0, 7) == CONTENT[:7]
            assert read(source, 7, 20 * MB) == CONTENT[7 : 20 * MB]
            assert not gone.is_set()
    finally:
        gone.set()
        for source in hanging:
            source.close()


@pytest.mark.parametrize("wanted", [(10, 1 << 62), (-5, 10), (1 << 40, 1 << 41), (10, 5), (0, 0)])
def test_ranges_that_do_not_exist_are_not_fetched(wanted: tuple[int, int]) -> None:
    storage = Remote()
    with opened(storage) as source:
        source.fetch_ahead([wanted])
        assert read(source, 30 * MB, 30 * MB + 9) == CONTENT[30 * MB : 30 * MB + 9]
    assert all(0 <= start < end <= len(CONTENT) for start, end in storage.asked)


HANGING = """
from threading import Event
from lakeport.engine.storage.pools import pool

begun = Event()
for _ in range(3):
    pool("test", 2).submit(lambda: (begun.set(), Event().wait()))
begun.wait()
"""


def test_requests_that_hang_let_the_process_exit() -> None:
    ended = subprocess.run([sys.executable, "-c", HANGING], capture_output=True, text=True, check=True, timeout=60)
    assert (ended.stdout, ended.stderr) == ("", "")


def test_a_pool_runs_as_many_calls_at_once_as_it_has_threads() -> None:
    together, names, requests = Barrier(3), set[str](), RequestPool(3, "test")

    def call(number: int) -> int:
        names.add(current_thread().name)
        if number < 3:
            together.wait(10)
        return number * number

    calls = [requests.submit(call, number) for number in range(30)]
    assert [each.result(10) for each in calls] == [number * number for number in range(30)]
    assert len(names) == 3


def test_a_call_that_fails_or_is_cancelled_leaves_the_pool_as_it_is() -> None:
    requests, going = RequestPool(1, "test"), Event()
    waiting, cancelled = requests.submit(going.wait, 10), requests.submit(int, "1")
    assert cancelled.cancel()
    failing, last = requests.submit(int, "one"), requests.submit(int, "2")
    going.set()
    assert waiting.result(10)
    with pytest.raises(ValueError, match="one"):
        failing.result(10)
    assert last.result(10) == 2


@pytest.mark.parametrize("columns", [["a"], ["c"], ["a", "s"], ["a", "b", "c", "s"]])
@pytest.mark.parametrize("group", [None, 1])
def test_the_columns_of_a_file_are_fetched_once(columns: list[str], group: int | None) -> None:
    rows = 300_000
    numbers = np.random.default_rng(1).integers(0, 1 << 60, (5, rows))
    nested = pa.StructArray.from_arrays([pa.array(numbers[3]), pa.array(numbers[4])], ["x", "y"])
    table = pa.table({"a": numbers[0], "b": numbers[1], "c": [None, *numbers[2][1:].tolist()], "s": nested})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=100_000)
    content = sink.getvalue().to_pybytes()
    storage = Remote(content)
    split = FileSplit(FileStatus(FILE.path, len(content)), *(() if group is None else (group, group + 1)))
    wanted = table.select(columns) if group is None else table.select(columns).slice(group * 100_000, 100_000)
    batches = list(ParquetFiles(storage).read_parquet_files([split], wanted.schema))
    assert pa.Table.from_batches(batches).equals(wanted)
    footer, *ranges = storage.asked
    assert footer[1] == len(content)
    ranges.sort()
    assert all(before[1] <= after[0] for before, after in pairwise(ranges))
    if columns == ["a"]:
        assert sum(end - start for start, end in ranges) < len(content) / 4 / (1 if group is None else 3)


def test_a_row_group_too_large_to_load_is_fetched_once() -> None:
    random = np.random.default_rng(7)
    table = pa.table({name: random.integers(0, 1 << 62, 4_000_000) for name in "abc"})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=len(table))
    content = sink.getvalue().to_pybytes()
    storage, split = Remote(content), FileSplit(FileStatus(FILE.path, len(content)))
    assert pa.Table.from_batches(ParquetFiles(storage).read_parquet_files([split], table.schema)).equals(table)
    assert len(storage.asked) <= 30
    assert sum(end - start for start, end in storage.asked) < 1.01 * len(content)


def test_several_files_are_fetched_at_once() -> None:
    together = Barrier(4)
    sink = pa.BufferOutputStream()
    table = pa.table({"a": [1, 2]})
    pq.write_table(table, sink)

    class Together(MemoryStorage):
        def open_input(self, file: FileStatus) -> pa.NativeFile:
            together.wait(10)
            return super().open_input(file)

    storage = Together()
    files = [FileStatus(f"test://{number}", len(sink.getvalue())) for number in range(4)]
    for file in files:
        storage.write(file.path, sink.getvalue().to_pybytes())
    batches = ParquetFiles(storage).read_parquet_files(map(FileSplit, files), table.schema)
    assert pa.Table.from_batches(batches).column("a").to_pylist() == [1, 2] * 4
