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
import numpy as np
import pyarrow as pa

from lakeport.engine.json.cells import parse_cells
from lakeport.engine.json.lines import READING_ERRORS, ArrowLines, MsgspecLines
from lakeport.errors import CorruptTableError
from lakeport.kernel.engine import FILE_INDEX, FileStatus, StorageClient
from lakeport.kernel.values import from_numpy

_BLOCK_SIZE = 1 << 19
_SMALL_FILE = 1 << 22
"""Files up to this size are prefetched whole; larger ones are read in blocks to save memory."""
_SMALL_BLOCK = 1 << 16
"""Blocks up to this size are not worth a second thread."""
_BLOCKS_AHEAD = 2


@dataclass(frozen=True, slots=True)
class _Piece:
    """Whole lines of a file."""

    text: bytes
    path: str
    file: int
    """The index of the file."""
    start: int = 0
    """Their offset in the file."""


_Block = list[_Piece]
"""Lines to parse together: a piece of any size, or small ones of several files."""


class JsonFiles:
    """The `JsonHandler` of the default engine."""

    def __init__(self, storage: StorageClient) -> None:
        self._storage = storage

    def read_json_files(self, files: Sequence[FileStatus], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        place = schema.get_field_index(FILE_INDEX.name)
        stored = schema if place < 0 else schema.remove(place)
        for block, batch in self._read_blocks(self._blocks(files, together=place >= 0), stored):
            yield batch if place < 0 else batch.add_column(place, FILE_INDEX, _file_indices(block, batch))

    def _read_blocks(self, blocks: Iterator[_Block], schema: pa.Schema) -> Iterator[tuple[_Block, pa.RecordBatch]]:
        arrow, lines = ArrowLines(schema), MsgspecLines(schema)
        ahead: deque[tuple[_Block, Future[pa.RecordBatch | None]]] = deque()

        def finish(block: _Block, attempt: Future[pa.RecordBatch | None]) -> tuple[_Block, pa.RecordBatch]:
            parsed = attempt.result()
            return block, self._read(block[0], lines) if parsed is None else arrow.shape(parsed)

        for block in blocks:
            if len(block) == 1 and (ahead or len(block[0].text) > _SMALL_BLOCK):
                ahead.append((block, _pool().submit(arrow.parse, block[0].text)))
                if len(ahead) > _BLOCKS_AHEAD:
                    yield finish(*ahead.popleft())
                continue
            while ahead:
                yield finish(*ahead.popleft())
            if len(block) > 1 and (batch := lines.read_exactly(_lines(block))) is not None:
                yield block, batch
            else:
                yield from (([piece], self._read(piece, lines)) for piece in block)
        while ahead:
            yield finish(*ahead.popleft())

    def parse_json(self, texts: pa.StringArray, schema: pa.Schema) -> pa.RecordBatch:
        return parse_cells(texts, schema)

    def _read(self, piece: _Piece, lines: MsgspecLines) -> pa.RecordBatch:
        try:
            return lines.read(piece.text)
        except READING_ERRORS as error:
            raise self._bad_line(piece, lines, error) from error

    def _blocks(self, files: Sequence[FileStatus], *, together: bool) -> Iterator[_Block]:
        """The pieces of the files, each on its own, or small ones together."""
        small: _Block = []
        size = 0
        for piece in self._pieces(files):
            stands_alone = not together or len(piece.text) > _SMALL_BLOCK
            if small and (stands_alone or size + len(piece.text) > _BLOCK_SIZE):
                yield small
                small, size = [], 0
            if stands_alone:
                yield [piece]
            else:
                small.append(piece)
                size += len(piece.text)
        if small:
            yield small

    def _pieces(self, files: Sequence[FileStatus]) -> Iterator[_Piece]:
        for is_small, group in groupby(enumerate(files), lambda item: item[1].size <= _SMALL_FILE):
            run = list(group)
            if is_small:
                texts = self._storage.read_many([file for _, file in run])
                for (index, file), data in zip(run, texts, strict=True):
                    yield from _cut(data, file.path, index)
            else:
                for index, file in run:
                    with self._storage.open_input(file) as source:
                        yield from _cut_stream(source, file.path, index)

    def _bad_line(self, piece: _Piece, lines: MsgspecLines, error: Exception) -> CorruptTableError:
        """Find the bad line by trying them one by one."""
        for number, line in enumerate(piece.text.split(b"\n"), start=1):
            try:
                if line.strip():
                    lines.decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeError, RecursionError) as reason:
                number += self._storage.read(piece.path, 0, piece.start).count(b"\n")
                return CorruptTableError(f"line {number} of the log file is not valid: {reason}", path=piece.path)
        return CorruptTableError(f"the log file is not valid: {error}", path=piece.path)


@cache
def _pool() -> ThreadPoolExecutor:
    # One for the process: most log files have few blocks, and starting threads takes longer than parsing.
    return ThreadPoolExecutor(_BLOCKS_AHEAD, thread_name_prefix="lakeport-json")


def _lines(block: _Block) -> bytes:
    """The lines of a block, each with its end, which the last line of a file may lack."""
    texts = [piece.text for piece in block]
    return b"".join(text if text.endswith(b"\n") else text + b"\n" for text in texts)


def _file_indices(block: _Block, batch: pa.RecordBatch) -> pa.Array:
    """The index of each row's file. In a block of several pieces, every line is a row."""
    counts = [batch.num_rows]
    if len(block) > 1:
        counts = [piece.text.count(b"\n") + (not piece.text.endswith(b"\n")) for piece in block]
    return from_numpy(np.repeat([piece.file for piece in block], counts))


def _cut(text: bytes, path: str, file: int) -> Iterator[_Piece]:
    if len(text) > _BLOCK_SIZE:
        yield from _cut_stream(BytesIO(text), path, file)
    elif text and not text.isspace():
        yield _Piece(text, path, file)


def _cut_stream(source: Any, path: str, file: int) -> Iterator[_Piece]:
    """Split at line ends into pieces of about `_BLOCK_SIZE`, or of one longer line; skips blank ones."""
    start, size = 0, _BLOCK_SIZE
    while data := source.read(size):
        end = data.rfind(b"\n") + 1
        if not end and len(data) == size:  # a longer line
            source.seek(start)
            size *= 2
            continue
        text = data[:end] if end else data  # the last line may be unterminated
        if not text.isspace():
            yield _Piece(text, path, file, start)
        start, size = start + len(text), _BLOCK_SIZE
        if len(text) < len(data):
            source.seek(start)
