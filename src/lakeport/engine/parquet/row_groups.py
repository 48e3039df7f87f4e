"""Skip row groups by the statistics in a Parquet file's footer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from lakeport.engine.parquet.open_file import OpenFile
from lakeport.kernel.data_files import Bounds, FieldIndex, may_match
from lakeport.kernel.expressions import Column, Expression
from lakeport.kernel.values import array_of

if TYPE_CHECKING:
    import pyarrow.parquet as pq


def row_groups_that_may_match(
    file: OpenFile, groups: list[int], schema: pa.Schema, predicate: Expression, *, by_time: bool = True
) -> list[int]:
    """The `groups` in which a row can satisfy the predicate, which is in terms of `schema`. Without `by_time`, ignores
    bounds of dates and timestamps."""
    leaves = [file.schema.column(i).path for i in range(len(file.schema))]

    def bounds_of(column: Column) -> Bounds | None:
        found = _find_leaf(file.schema_arrow, schema, column.path)
        if found is None or leaves.count(found[0]) != 1:  # column `a.b` and field b of a have the same path
            return None
        path, target = found
        if pa.types.is_temporal(target) and not by_time:
            return None
        return _bounds(file.metadata, groups, leaves.index(path), target)

    mask = may_match(predicate, bounds_of, len(groups))
    return [group for group, keep in zip(groups, mask, strict=True) if keep]


def _find_leaf(source: pa.Schema, schema: pa.Schema, path: tuple[str, ...]) -> tuple[str, pa.DataType] | None:
    """The Parquet path of a (nested) column of `schema`, and its type there."""
    fields, targets = list(source), list(schema)
    names: list[str] = []
    data_type: pa.DataType | None = None
    for name in path:
        target = next((f for f in targets if f.name == name), None)
        index = None if target is None else FieldIndex(fields).find(target)
        if target is None or index is None:
            return None
        names.append(fields[index].name)
        data_type = target.type
        fields = list(fields[index].type) if pa.types.is_struct(fields[index].type) else []
        targets = list(data_type) if pa.types.is_struct(data_type) else []
    return (".".join(names), data_type) if data_type is not None and not fields else None


def _bounds(metadata: pq.FileMetaData, groups: list[int], leaf: int, target: pa.DataType) -> Bounds | None:
    chunks = [metadata.row_group(group).column(leaf) for group in groups]
    statistics = [chunk.statistics if chunk.is_stats_set else None for chunk in chunks]
    rows = [metadata.row_group(group).num_rows for group in groups]
    nulls = [s.null_count if s is not None and s.has_null_count else None for s in statistics]
    bounded = [s if s is not None and s.has_min_max else None for s in statistics]
    return Bounds(
        lower=_values([_bound(s, "min") for s in bounded], target),
        upper=_values([_bound(s, "max") for s in bounded], target),
        nulls=array_of(nulls, pa.int64()),
        rows=array_of(rows, pa.int64()),
    )


def _bound(statistics: pq.Statistics | None, name: Literal["min", "max"]) -> Any:
    """None if unknown, or not representable in Python: a date or timestamp outside the years 1 to 9999."""
    try:
        return getattr(statistics, name, None)
    except (OverflowError, ValueError):
        return None


def _values(values: list[Any], target: pa.DataType) -> pa.Array | None:
    """Statistics as a column of the type, or None if they are of another kind."""
    try:
        if pa.types.is_timestamp(target):
            return array_of([_moment(value, zoned=target.tz is not None) for value in values], target)
        if pa.types.is_string(target):
            return array_of([value.decode() if isinstance(value, bytes) else value for value in values], target)
        return array_of(values, target)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, ValueError, OverflowError):
        return None


def _moment(value: Any, zoned: bool) -> datetime | None:
    if not isinstance(value, datetime):
        return None
    utc = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    return utc if zoned else utc.replace(tzinfo=None)
