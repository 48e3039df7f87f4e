"""Sort rows by numbers in bounded memory: an external merge sort through temporary files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Keys: TypeAlias = npt.NDArray[np.uint64]
Read: TypeAlias = Callable[[int], pa.RecordBatch]

_KEY = pa.field("key", pa.uint64(), nullable=False)
_BATCH_BYTES = 1 << 19
"""The approximate size of the batches in which sorted files are read, one per file at a time."""
_MERGED_BYTES = 32 << 20
_MARKS = 4096
_MOST_ENTRIES = 4096
"""Comparing larger dictionaries does not pay off."""
_LEEWAY = 1 / 6
"""By what share of a part a cut may be moved."""
END = 1 << 64


@dataclass(frozen=True)
class _Run:
    """Sorted rows in batches, the key as last column."""

    open: Callable[[], _Opened]
    firsts: Keys
    """The least key of each batch."""
    size: float
    """The approximate size of each batch in bytes."""
    marks: Keys
    """The keys of rows at regular intervals."""
    distance: int

    def overlapping(self, first: int, end: int) -> range:
        """The batches that may have keys from `first` on and before `end`."""
        return range(max(0, _count_below(self.firsts, first) - 1), _count_below(self.firsts, end))


@dataclass
class _Opened:
    read: Read
    close: Callable[[], object]


class RowSorter:
    """Accepts rows with keys, then returns them in key order. The order of equal keys is unspecified.

    Memory is bounded: about three times `held` bytes, and a small batch for each sorted file."""

    def __init__(self, folder: Path, held: int) -> None:
        self._folder, self._held = folder, held
        self._waiting: list[pa.RecordBatch] = []
        self._size = 0
        self._runs: list[_Run] = []
        self._writer = ThreadPoolExecutor(1, "lakeport-sorter")
        self._writing: Future[_Run] | None = None

    def __enter__(self) -> RowSorter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.shutdown(cancel_futures=True)

    def add(self, rows: pa.RecordBatch, keys: Keys) -> None:
        """Add rows; columns of text may be dictionaries in some batches and not in others."""
        self._waiting.append(rows.append_column(_KEY, pa.array(keys)))
        self._size += rows.nbytes
        if self._size >= self._held:
            self._finish_run()
            self._writing = self._writer.submit(
                _write_run, self._folder / f"{len(self._runs)}.arrow", self._take_waiting()
            )

    def finish(self) -> None:
        """Call this after the last row."""
        self._finish_run()
        if self._waiting:
            batches = _sort(self._take_waiting())
            self._runs.append(_make_run(batches, lambda: _Opened(batches.__getitem__, lambda: None)))

    def _take_waiting(self) -> list[pa.RecordBatch]:
        taken, self._waiting, self._size = self._waiting, [], 0
        return taken

    def _finish_run(self) -> None:
        if self._writing is not None:
            self._runs.append(self._writing.result())
            self._writing = None

    def cuts(self, parts: int) -> list[int]:
        """Keys, from 0 to `END`, that cut the rows into at most this many parts of about equal size."""
        if not self._runs:
            return [0, END]
        marks = np.concatenate([run.marks for run in self._runs])
        order = np.argsort(marks, kind="stable")
        rows = np.cumsum(np.concatenate([np.full(len(run.marks), run.distance) for run in self._runs])[order])
        shares = np.arange(1, parts) + np.array([[-_LEEWAY], [_LEEWAY]])
        lows, highs = marks[order][np.searchsorted(rows, rows[-1] * shares / parts)].tolist()
        return sorted({0, *map(_roundest, lows, highs), END})

    def between(self, first: int, end: int) -> Iterator[pa.RecordBatch]:
        """The rows with keys from `first` on and before `end`, in their order. Several threads may read at once."""
        cursors = [_Cursor(run) for run in self._runs]
        for low, high in pairwise(self._windows(first, end)):
            pieces = [piece for cursor in cursors for piece in cursor.take(low, high)]
            if pieces:
                yield from _merge(pieces)

    def _windows(self, first: int, end: int) -> list[int]:
        """Keys that cut the rows into windows small enough to be sorted at once."""
        if not self._runs:
            return []
        firsts = np.concatenate([run.firsts for run in self._runs])
        sizes = np.concatenate([np.full(len(run.firsts), run.size) for run in self._runs])
        inside = (firsts > np.uint64(first)) & (firsts <= np.uint64(end - 1))
        order = np.argsort(firsts[inside], kind="stable")
        numbers = (np.cumsum(sizes[inside][order]) // _MERGED_BYTES).astype(np.int64)
        begins = np.flatnonzero(np.diff(numbers, prepend=0))
        return sorted({first, *map(int, firsts[inside][order][begins]), end})


@dataclass
class _Cursor:
    """Reads a run from front to back. Keeps the last batch: the next window may need the rest of it."""

    run: _Run
    _last: tuple[int, pa.RecordBatch] | None = field(default=None, init=False)

    def take(self, first: int, end: int) -> Iterator[pa.RecordBatch]:
        numbers = self.run.overlapping(first, end)
        if not numbers:
            return
        opened = self.run.open()
        try:
            for number in numbers:
                batch = self._batch(opened, number)
                keys = keys_in(batch)
                low, high = _count_below(keys, first), _count_below(keys, end)
                if high > low:
                    yield batch.slice(low, high - low)
        finally:
            opened.close()

    def _batch(self, opened: _Opened, number: int) -> pa.RecordBatch:
        if self._last is None or self._last[0] != number:
            self._last = (number, opened.read(number))
        return self._last[1]


def _roundest(low: int, high: int) -> int:
    """The key from `low` to `high` that ends in most zeros, in binary."""
    zeros = max(0, (max(0, low - 1) ^ high).bit_length() - 1)
    return high >> zeros << zeros


def keys_in(batch: pa.RecordBatch) -> Keys:
    return np.asarray(batch.column(batch.num_columns - 1))


def _count_below(keys: Keys, limit: int) -> int:
    return len(keys) if limit >= END else int(np.searchsorted(keys, np.uint64(limit)))


def _write_run(path: Path, batches: list[pa.RecordBatch]) -> _Run:
    """Sort the rows into a file."""
    found = _sort(batches)
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, found[0].schema, options=options) as writer:
        for batch in found:
            writer.write_batch(batch)
    return _make_run(found, lambda: _open_run(path))


def _open_run(path: Path) -> _Opened:
    source = pa.OSFile(str(path))
    return _Opened(pa.ipc.open_file(source).get_batch, source.close)


def _make_run(batches: list[pa.RecordBatch], opened: Callable[[], _Opened]) -> _Run:
    keys = [keys_in(batch) for batch in batches]
    distance = max(1, sum(map(len, keys)) // _MARKS)
    marks = np.concatenate(keys)[::distance]
    return _Run(
        opened,
        firsts=np.array([some[0] for some in keys], np.uint64),
        size=sum(batch.nbytes for batch in batches) / len(batches),
        marks=marks.copy(),
        distance=distance,
    )


def _sort(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The rows of all batches, rebatched for reading. Empties the list."""
    whole = _combine(batches)
    batches.clear()
    order = np.argsort(keys_in(whole), kind="stable")
    rows = max(1, int(len(order) * _BATCH_BYTES // max(1, whole.nbytes)))
    return [whole.take(pa.array(order[start : start + rows])) for start in range(0, len(order), rows)]


def _merge(pieces: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    whole = _combine(pieces)
    order = pa.array(np.argsort(keys_in(whole), kind="stable"))
    yield whole.remove_column(whole.num_columns - 1).take(order)


def _combine(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows as one batch. A text column stays a dictionary if it is a small one in all batches."""
    columns = [_concat([batch.column(place) for batch in batches]) for place in range(batches[0].num_columns)]
    fields = [field.with_type(column.type) for field, column in zip(batches[0].schema, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _concat(arrays: list[pa.Array]) -> pa.Array:
    encoded = [pa.types.is_dictionary(array.type) for array in arrays]
    if not any(encoded):
        return pa.concat_arrays(arrays)
    if all(encoded) and max(len(array.dictionary) for array in arrays) <= _MOST_ENTRIES:
        unified = pa.chunked_array(arrays).unify_dictionaries()
        if len(unified.chunk(0).dictionary) <= _MOST_ENTRIES:
            return pa.concat_arrays(unified.chunks)
    plain = [array.dictionary_decode() if is_one else array for array, is_one in zip(arrays, encoded, strict=True)]
    return pa.concat_arrays(plain)
