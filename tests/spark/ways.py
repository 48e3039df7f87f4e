"""The ways in which a table comes into Spark, and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import lit
from pyspark.sql.types import VariantVal

WAY = "the way"
"""A column that no table has."""


def read_lakeport(spark: SparkSession, path: str, **options: Any) -> DataFrame:
    return spark.read.format("lakeport").options(**_given(options)).load(path)


def read_shared(spark: SparkSession, target: str, **options: Any) -> DataFrame:
    return spark.read.format("deltaSharing").options(**_given(options)).load(target)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """Without those that are None, which Spark does not survive."""
    return {name: value for name, value in options.items() if value is not None}


def rows_by_way(frames: Mapping[str, DataFrame]) -> dict[str, pa.Table]:
    """The rows of frames with the same columns, in one job: each job costs more than the rows of a small table."""
    found = _tagged(frames).toArrow()
    places: dict[str, list[int]] = {way: [] for way in frames}
    for row, way in enumerate(found.column(WAY).to_pylist()):
        places[way].append(row)
    return {way: found.drop([WAY]).take(pa.array(rows, pa.int64())) for way, rows in places.items()}


def collected_by_way(frames: Mapping[str, DataFrame]) -> dict[str, list[dict[str, Any]]]:
    """The same as Python values, variants as JSON text: PySpark's `toArrow` fails where an array of
    variants has a null."""
    rows: dict[str, list[dict[str, Any]]] = {way: [] for way in frames}
    for row in _tagged(frames).collect():
        values = row.asDict()
        rows[values.pop(WAY)].append({name: _plain(value) for name, value in values.items()})
    return rows


def _tagged(frames: Mapping[str, DataFrame]) -> DataFrame:
    return reduce(DataFrame.union, [frame.withColumn(WAY, lit(way)) for way, frame in frames.items()])


def _plain(value: Any) -> Any:
    match value:
        case VariantVal():
            return value.toJson()
        case Row():
            return {name: _plain(inner) for name, inner in value.asDict().items()}
        case list():
            return [_plain(item) for item in value]
        case dict():
            return [(_plain(key), _plain(item)) for key, item in value.items()]
    return value
