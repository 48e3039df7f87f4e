"""Whether two libraries gave the same rows: sums over each column, in whatever order the rows came."""

from __future__ import annotations

import math
import zlib
from typing import Any

Answer = int | list[float]
"""A number, or of rows: how many, and for each column its nulls and a sum over its values."""


def answer_of(result: Any) -> Answer:
    """`result` is a number, or rows in anything that has Arrow's C stream interface."""
    if isinstance(result, int):
        return result
    import pyarrow as pa

    rows = pa.table(result)
    return [rows.num_rows, *(number for column in rows.columns for number in (column.null_count, _sum(column)))]


def same(one: Answer, other: Answer) -> bool:
    """Sums of floating-point numbers depend on the order, in their last digits."""
    if isinstance(one, int) or isinstance(other, int):
        return one == other
    return len(one) == len(other) and all(math.isclose(a, b, rel_tol=1e-9) for a, b in zip(one, other, strict=True))


def _sum(column: Any) -> float:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
        return float(pc.sum(column.cast(pa.float64(), safe=False)).as_py() or 0)
    counts = pc.value_counts(column.cast(pa.large_string())).to_pylist()
    return float(sum(zlib.crc32((each["values"] or "").encode()) * each["counts"] for each in counts))
