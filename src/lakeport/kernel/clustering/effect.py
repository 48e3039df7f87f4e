"""The files that filters read, by the statistics in the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lakeport.kernel.data_files import FileStatistics, may_match, stats_type
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Column, Expression, all_of, bind, normalize
from lakeport.kernel.schema import StructType

_Path = tuple[str, ...]
Row = Mapping[_Path, Any]
"""The values of a row in some columns."""


@dataclass(frozen=True)
class FilterCost:
    """How much filters on some columns read on average, and of how many files and bytes."""

    columns: tuple[str, ...]
    files: float
    bytes: float
    of_files: int
    of_bytes: int


@dataclass(frozen=True)
class _Files:
    statistics: FileStatistics
    sizes: np.ndarray[Any, np.dtype[np.int64]]

    def cost(self, predicates: Sequence[Expression], columns: Sequence[_Path]) -> FilterCost:
        found = [may_match(predicate, self.statistics.bounds_of, len(self.sizes)) for predicate in predicates]
        files, sizes = np.sum(found), np.sum(found @ self.sizes)
        many = len(predicates)
        names = tuple(map(".".join, columns))
        return FilterCost(names, float(files) / many, float(sizes) / many, len(self.sizes), int(self.sizes.sum()))


def costs_of_filters(
    engine: Engine, schema: StructType, mapping_mode: str, files: Sequence[tuple[str | None, int]], rows: Sequence[Row]
) -> list[FilterCost]:
    """The files read to find one of the `rows` by its values in all of their columns, and in each single one: averages
    over the rows. `files` are the files' statistics and sizes."""
    if not rows:
        return []
    columns = list(rows[0])
    kind = stats_type(schema, [Column(path) for path in columns], mapping_mode)
    texts = pa.array([stats or "{}" for stats, _ in files], pa.string())
    parsed = engine.json.parse_json(texts, pa.schema(list(kind))).to_struct_array()
    known = _Files(FileStatistics(parsed, schema, mapping_mode), np.array([size for _, size in files], np.int64))
    subsets = [tuple(columns), *([(path,) for path in columns] if len(columns) > 1 else [])]
    return [known.cost([_filter(schema, subset, row) for row in rows], subset) for subset in subsets]


def _filter(schema: StructType, paths: Sequence[_Path], row: Row) -> Expression:
    parts = [_has(path, row[path]) for path in paths]
    predicate = all_of(parts)
    assert predicate is not None
    return normalize(bind(predicate, schema), schema)


def _has(path: _Path, value: Any) -> Expression:
    column = Column(path)
    return column.is_null() if value is None else column == value
