"""JSON into Arrow: log files by line, statistics by text."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from itertools import groupby
from typing import Any

import msgspec
import pyarrow as pa

from lakeport.engine.json.cells import parse_cells
from lakeport.engine.json.lines import ArrowLines, MsgspecLines
from lakeport.errors import CorruptTableError
from lakeport.kernel.engine import FileStatus, StorageClient

_BLOCK_SIZE = 1 << 19
_SMALL_FILE = 1 << 22
"""Files up to this size are prefetched whole; larger ones are read in blocks to save memory."""
_SMALL_BLOCK = 1 << 16
"""Blocks up to this size are not worth a second thread."""
_BLOCKS_AHEAD = 2


@dataclass(frozen=True, slots=True)
class _Block:
    """Whole lines of a file."""

    text: bytes
    path: str
    start: int
    """Their offset in the file."""


class JsonFiles:
    """The `JsonHandler` of the default engine."""

    def __init__(self, storage: StorageClient) -> None:
        self._storage = storage

    def read_json_files(self, files: Sequence[FileStatus], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        arrow, lines = ArrowLines(schema), MsgspecLines(schema)
        ahead: deque[tuple[_Block, Future[pa.RecordBatch | None]]] = deque()

        def finish(block: _Block, attempt: Future[pa.RecordBatch | None]) -> pa.RecordBatch:
            parsed = attempt.result()
            return self._read(block, lines) if parsed is None else arrow.shape(parsed)

        for block in self._blocks(files):
            if not ahead and len(block.text) <= _SMALL_BLOCK:
                yield self._read(block, lines)
                continue
            ahead.append((block, _pool().submit(arrow.parse, block.text)))
            if len(ahead) > _BLOCKS_AHEAD:
                yield finish(*ahead.popleft())
        while ahead:
            yield finish(*ahead.popleft())

    def parse_json(self, texts: pa.StringArray, schema: pa.Schema) -> pa.RecordBatch:
        return parse_cells(texts, schema)

    def _read(self, block: _Block, lines: MsgspecLines) -> pa.RecordBatch:
        try:
            return lines.read(block.text)
        except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise self._bad_line(block, lines, error) from error

    def _blocks(self, files: Sequence[FileStatus]) -> Iterator[_Block]:
        for is_small, group in groupby(files, lambda file: file.size <= _SMALL_FILE):
            run = list(group)
            if is_small:
                for file, data in zip(run, self._storage.read_many(run), strict=True):
                    yield from _cut(BytesIO(data), file.path)
            else:
                for file in run:
                    with self._storage.open_input(file) as source:
                        yield from _cut(source, file.path)

    def _bad_line(self, block: _Block, lines: MsgspecLines, error: Exception) -> CorruptTableError:
        """Find the bad line by trying them one by one."""
        for number, line in enumerate(block.text.split(b"\n"), start=1):
            try:
                if line.strip():
                    lines.decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeError, RecursionError) as reason:
                number += self._storage.read(block.path, 0, block.start).count(b"\n")
                return CorruptTableError(f"line {number} of the log file is not valid: {reason}", path=block.path)
        return CorruptTableError(f"the log file is not valid: {error}", path=block.path)


@cache
def _pool() -> ThreadPoolExecutor:
    # One for the process: most log files have few blocks, and starting threads takes longer than parsing.
    return ThreadPoolExecutor(_BLOCKS_AHEAD, thread_name_prefix="lakeport-json")


def _cut(source: Any, path: str) -> Iterator[_Block]:
    """Split at line ends into blocks of about `_BLOCK_SIZE`, or of one longer line; skips blank blocks."""
    start, size = 0, _BLOCK_SIZE
    while data := source.read(size):
        end = data.rfind(b"\n") + 1
        if not end and len(data) == size:  # a longer line
            source.seek(start)
            size *= 2
            continue
        text = data[:end] if end else data  # the last line may be unterminated
        if not text.isspace():
            yield _Block(text, path, start)
        start, size = start + len(text), _BLOCK_SIZE
        if len(text) < len(data):
            source.seek(start)
