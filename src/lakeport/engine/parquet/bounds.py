"""The bounds of a written file's columns, from the statistics that the encoder leaves in the footer."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lakeport.engine.parquet.leaves import Path, leaves_of

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_LONGEST = 1 << 12
"""The encoder drops longer bounds of text, in bytes."""

Bounds = tuple[Any, Any]


class EncodedBounds:
    """Finds the bounds of text and decimals, outside lists and maps, from a file's row groups and its footer."""

    def __init__(self, schema: pa.Schema, columns: Collection[Path]) -> None:
        leaves = [leaf for field in schema for leaf in leaves_of(field)] if columns else []
        self._places = {path: place for place, (path, _) in enumerate(leaves)}
        self._texts = [path for path, data_type in leaves if path in columns and types.is_string(data_type)]
        self._long: dict[Path, Bounds] = {}
        self._metadata: pq.FileMetaData | None = None

    def add(self, rows: pa.Table) -> None:
        """Take a row group: find the bounds that its footer may lack."""
        for path in self._texts:
            top = rows.column(path[0])
            texts = pc.struct_field(top, path[1:]) if path[1:] else top
            if _longest(texts) > _LONGEST:
                found = pc.min_max(texts.cast(pa.string()))
                self._long[path] = widened(self._long.get(path), (found["min"].as_py(), found["max"].as_py()))

    def finish(self, metadata: pq.FileMetaData) -> None:
        """Take the footer."""
        self._metadata = metadata

    def of(self, path: Path) -> Bounds | None:
        """The least and greatest value of a column in the finished file; None if it has no values."""
        assert self._metadata is not None, "the file is not finished"
        bounds = self._long.get(path)
        for group in range(self._metadata.num_row_groups):
            statistics = self._metadata.row_group(group).column(self._places[path]).statistics
            if statistics.has_min_max:
                bounds = widened(bounds, (statistics.min, statistics.max))
        return bounds


def _longest(texts: pa.ChunkedArray) -> int:
    if types.is_dictionary(texts.type):
        return max((_longest(pa.chunked_array([chunk.dictionary])) for chunk in texts.chunks), default=0)
    return pc.max(pc.binary_length(texts)).as_py() or 0


def widened(first: Bounds | None, second: Bounds) -> Bounds:
    return second if first is None else (min(first[0], second[0]), max(first[1], second[1]))
