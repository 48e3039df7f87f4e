"""Load tables by name, and explain which reader Spark uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from lakeport.frame import Changes, Frame
from lakeport.sharing.names import is_table_url
from lakeport.spark.frames import Reader, to_spark
from lakeport.spark.native.frames import why_not_native
from lakeport.spark.options import ReadOptions

OptionValue = str | int | float | bool | Sequence[str]
"""How a value of an option may be written in Python: `columns=["id", "day"]` is `columns="id, day"`."""


def load(spark: SparkSession, target: str, *, reader: Reader | None = None, **options: OptionValue) -> DataFrame:
    """The rows of a shared table (`profile#share.schema.table`), or of a Delta table by path. The options are those of
    the formats `deltaSharing` and `lakeport`: `load(spark, target, versionAsOf=3)`. Raises `ValueError` for others.

    Spark's own reader is used if possible, with columns and filters of later operations pushed down. Other tables are
    read in Python; see `explain`. `reader="python"` forces Python."""
    return to_spark(_opened(target, options), spark, reader)


def explain(table: str | Frame | Changes, spark: SparkSession, **options: OptionValue) -> str:
    """Describe, for people, what a read would do and which reader the session uses."""
    rows = _opened(table, options) if isinstance(table, str) else table
    reason = why_not_native(rows, spark)
    reader = "Spark's own" if reason is None else f"Python: {reason}"
    return f"{rows.explain()}\n{'reader':<10}{reader}"


def _opened(target: str, options: Mapping[str, OptionValue]) -> Frame | Changes:
    texts = {name: _text(value) for name, value in options.items()}
    sharing = is_table_url(target) or any(name.lower() == "endpoint" for name in texts)
    return ReadOptions.parse({"path": target, **texts}, sharing=sharing).open_batch()


def _text(value: OptionValue) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
