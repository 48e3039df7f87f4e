"""Where the columns of a Parquet file are, so that a remote file's are fetched together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.engine.storage.ranges import Range, RangeInput

if TYPE_CHECKING:
    import pyarrow.parquet as pq


def fetch_columns(source: pa.NativeFile, metadata: pq.FileMetaData, groups: Sequence[int], columns: list[str]) -> None:
    """Fetch these columns of these row groups ahead, if the file is remote."""
    if isinstance(source, RangeInput):
        source.fetch_ahead(_chunks(metadata, groups, columns))


def _chunks(metadata: pq.FileMetaData, groups: Sequence[int], columns: list[str]) -> Iterator[Range]:
    wanted = set(columns)
    leaves = [
        i for i in range(metadata.num_columns) if not wanted.isdisjoint(_ancestors(metadata.schema.column(i).path))
    ]
    for group in map(metadata.row_group, groups):
        for chunk in map(group.column, leaves):
            dictionary = chunk.dictionary_page_offset if chunk.has_dictionary_page else None
            start = min(chunk.data_page_offset, dictionary or chunk.data_page_offset)
            yield start, start + chunk.total_compressed_size


def _ancestors(path: str) -> Iterator[str]:
    """A column's path, and those of the columns around it."""
    yield path
    while (dot := path.rfind(".")) >= 0:
        path = path[:dot]
        yield path
