"""Write rows to a table's data files on this machine: several files at once, memory bounded.

Each open file has a thread that compresses, writes and collects statistics. A stream fills one file until that is busy
and has its first row group; then more are opened beside it, up to the number of cores. Files are closed at the target
size. Rows of a partition are buffered until they are worth a file; if the buffers grow too large, the largest
partition is written out. So many partitions need not mean many small files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Event, Semaphore, Thread
from types import TracebackType

import pyarrow as pa

from lakeport.errors import StorageError
from lakeport.kernel.actions import Add
from lakeport.kernel.engine import Engine
from lakeport.kernel.write import PhysicalBatch, RowTransformer, StatsCollector, WriteContext

_SMALL_ROWS = 1 << 14
"""Batches with fewer rows are combined; others are not worth a copy."""
_GATHERED_ROWS = 1 << 18
_GATHERED_DIVISOR = 8
"""Small batches are combined up to this share of what may be buffered, and large ones split, before partitioning; a
partition buffers this much before it gets a file."""
_FIRST_FILE_BYTES = 64 << 20
"""A file receives this much, in memory, before another one is opened beside it."""
_MOST_OF_A_FILE = 2 * _FIRST_FILE_BYTES
"""A row group: the most that an open file buffers in memory."""
_HELD_BYTES = 256 << 20
"""The most that all partitions may buffer in memory, in open files or before them."""
_LEAST_HELD_BYTES = 32 << 20
"""They may buffer this much even if memory is limited to less: files would become too small otherwise."""
_MOST_LANES = 8
"""Maximum number of files of a partition written at once, whatever the cores: each holds a row group in memory."""
_OPEN_FILES = 64
_CLOSING_FILES = 8
_BATCHES_AHEAD = 2
"""Maximum number of unwritten batches per file, including the one in progress."""

_Key = tuple[str | None, ...]
"""The values of a partition."""


def write_rows(
    engine: Engine, context: WriteContext, batches: Iterable[pa.RecordBatch], lanes: int | None = None
) -> list[Add]:
    """Write the rows to data files that no commit refers to yet. On failure, deletes them.

    `lanes` is the number of files per partition written at once: with 1, or if the table gathers rows, rows keep their
    order and go to one file until it reaches the target size."""
    with DataWriter(engine, context, lanes) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.finish()


@dataclass
class _Waiting:
    """Buffered batches."""

    partition_values: Mapping[str, str | None] = field(default_factory=dict)
    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    size: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)
        self.rows += batch.num_rows
        self.size += batch.nbytes

    def joined(self, enough: int = _SMALL_ROWS) -> Iterator[pa.RecordBatch]:
        """The same rows; batches with fewer than `enough` rows are combined with others of the same schema."""
        small = _Waiting()
        for batch in self.batches:
            if small.rows and (batch.num_rows >= enough or batch.schema != small.batches[0].schema):
                yield small.combined()
                small = _Waiting()
            small.add(batch)
            if small.rows >= enough:
                yield small.combined()
                small = _Waiting()
        if small.batches:
            yield small.combined()

    def combined(self) -> pa.RecordBatch:
        """The rows as one batch; all have one schema."""
        return self.batches[0] if len(self.batches) == 1 else pa.concat_batches(self.batches)


class DataWriter:
    """Takes logical rows; `finish` returns the files. Leaving it by an exception deletes them."""

    def __init__(
        self, engine: Engine, context: WriteContext, lanes: int | None = None, memory: int | None = None
    ) -> None:
        """`memory` is a number of bytes that the writer may take; by default, it takes what keeps the cores busy."""
        self._engine, self._context = engine, context
        self._lanes = lanes or (1 if context.gathers_rows else _most_lanes(memory))
        self._most_held = _HELD_BYTES if memory is None else min(_HELD_BYTES, max(memory, _LEAST_HELD_BYTES))
        self._most_gathered = self._most_held // _GATHERED_DIVISOR
        self._transformer = RowTransformer(engine, context)
        self._gathered = _Waiting()
        self._waiting: dict[_Key, _Waiting] = {}
        self._open: dict[_Key, list[_OpenFile]] = {}
        self._closing: deque[_OpenFile] = deque()
        self._files: list[_OpenFile] = []

    def __enter__(self) -> DataWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._abandon()

    def write(self, batch: pa.RecordBatch) -> None:
        """Raises `InvalidDataError` and `ConstraintError`, and `StorageError` from earlier writes."""
        for start in range(0, max(batch.num_rows, 1), _GATHERED_ROWS):
            self._gathered.add(batch.slice(start, _GATHERED_ROWS))
            if self._gathered.rows >= _GATHERED_ROWS or self._gathered.size >= self._most_gathered:
                self._flush()

    def write_physical(self, rows: PhysicalBatch) -> None:
        """Write rows that need no checks, as files hold them. Raises `StorageError` from earlier writes."""
        self._route(rows)
        self._make_room()

    def finish(self) -> list[Add]:
        """Close and return all files."""
        self._flush()
        for key in [*self._open, *self._waiting]:
            self._write_out(key)
        return [file.result() for file in self._files]

    def _flush(self) -> None:
        gathered, self._gathered = self._gathered, _Waiting()
        # A batch is split by partition, so one of many partitions must not be small.
        for batch in gathered.joined(_GATHERED_ROWS if self._context.partition_columns else _SMALL_ROWS):
            for part in self._transformer.transform(batch):
                if part.data.num_rows:
                    self._route(part)
        self._make_room()

    def _route(self, part: PhysicalBatch) -> None:
        key = tuple(part.partition_values.values())
        waiting = self._waiting.setdefault(key, _Waiting(part.partition_values))
        waiting.add(part.data)
        has_file = not key or key in self._open
        if (has_file and waiting.rows >= _SMALL_ROWS) or waiting.size >= self._most_gathered:
            self._hand_over(key)

    def _hand_over(self, key: _Key) -> None:
        """Move a partition's buffered rows to its files."""
        waiting = self._waiting.pop(key, None) or _Waiting()
        for batch in waiting.joined():
            lanes = self._open.setdefault(key, [])
            if not any(lane.offer(batch) for lane in lanes):
                if not lanes or self._has_room_beside(lanes):
                    lanes.append(self._start(waiting.partition_values))
                lanes[-1].put(batch)
            for lane in [lane for lane in lanes if lane.size >= self._context.target_file_size]:
                self._close(key, lane)

    def _has_room_beside(self, lanes: list[_OpenFile]) -> bool:
        return len(lanes) < self._lanes and lanes[-1].received >= _FIRST_FILE_BYTES

    def _start(self, partition_values: Mapping[str, str | None]) -> _OpenFile:
        file = _OpenFile(self._engine, self._context, partition_values)
        self._files.append(file)
        return file

    def _close(self, key: _Key, file: _OpenFile) -> None:
        """Close a file in the background, with a limit on how many at once."""
        file.close()
        self._open[key].remove(file)
        if not self._open[key]:
            del self._open[key]
        self._closing.append(file)
        while len(self._closing) > _CLOSING_FILES:
            self._closing.popleft().result()

    def _make_room(self) -> None:
        """Write out the largest partitions while too many files are open or too much is buffered."""
        held = {key: waiting.size for key, waiting in self._waiting.items()}
        for key, lanes in self._open.items():
            held[key] = held.get(key, 0) + sum(lane.held for lane in lanes)
        total, smaller = sum(held.values()), sorted(held, key=lambda key: held[key])
        while len(self._open) > _OPEN_FILES or (total > self._most_held and len(smaller) > 1):
            largest = smaller.pop()
            total -= held[largest]
            self._write_out(largest)

    def _write_out(self, key: _Key) -> None:
        self._hand_over(key)
        for file in list(self._open.get(key, ())):
            self._close(key, file)

    def _abandon(self) -> None:
        for file in self._files:
            file.abandon()
        with suppress(StorageError):  # report the original error; vacuum deletes leftovers
            self._engine.storage.delete([f"{self._context.table_root}/{file.path}" for file in self._files])


def _most_lanes(memory: int | None) -> int:
    most: int = min(pa.cpu_count(), _MOST_LANES)
    return most if memory is None else max(1, min(most, memory // _MOST_OF_A_FILE))


class _OpenFile:
    """A file written by its own thread."""

    def __init__(self, engine: Engine, context: WriteContext, partition_values: Mapping[str, str | None]) -> None:
        self._engine, self._context, self._partition_values = engine, context, partition_values
        self.path = context.new_file(partition_values)
        self.received = 0
        """Bytes of Arrow data."""
        self.size = 0
        """Bytes of the file so far."""
        self._queue: SimpleQueue[pa.RecordBatch | None] = SimpleQueue()
        self._free = Semaphore(_BATCHES_AHEAD)
        self._add: Add | None = None
        self._error: BaseException | None = None
        self._abandoned = Event()
        self._thread = Thread(target=self._run, name="lakeport-writer", daemon=True)
        self._thread.start()

    @property
    def held(self) -> int:
        """Approximate bytes buffered for the current row group."""
        return min(self.received, _MOST_OF_A_FILE)

    def offer(self, batch: pa.RecordBatch, patience: float = 0) -> bool:
        """Enqueue a batch unless the file stays busy for more than `patience` seconds."""
        if self._error is not None:
            raise self._error
        if not self._free.acquire(timeout=patience):
            return False
        self.received += batch.nbytes
        self._queue.put(batch)
        return True

    def put(self, batch: pa.RecordBatch) -> None:
        """Enqueue a batch, waiting until there is room."""
        while not self.offer(batch, patience=0.1):
            pass

    def close(self) -> None:
        """Let the thread finish the file; `result` waits for it."""
        self._queue.put(None)

    def result(self) -> Add:
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._add is not None
        return self._add

    def abandon(self) -> None:
        """Stop the thread; discard the file, if any."""
        self._abandoned.set()
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._write_all()
        except BaseException as error:  # reraised in the producer's thread
            self._error = error

    def _write_all(self) -> None:
        context = self._context
        statistics = StatsCollector(context.stats_columns, context.bounded_columns)
        path = f"{context.table_root}/{self.path}"
        writer = self._engine.parquet.open_writer(
            path, context.physical_schema, context.compression, context.bounded_columns
        )
        try:
            while (batch := self._queue.get()) is not None and not self._abandoned.is_set():
                statistics.add(batch)
                writer.write(batch)
                self.size = writer.size
                self._free.release()
            if self._abandoned.is_set():
                writer.abort()
                return
            file = writer.close()
        except BaseException:
            writer.abort()
            raise
        for column in context.bounded_columns:
            statistics.add_bounds(column, writer.bounds(column))
        stats = None if context.change_data else statistics.to_json(True if context.tight_bounds else None)
        self._add = context.add(file, self._partition_values, stats)
