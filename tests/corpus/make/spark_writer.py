"""Make the tables of one version of Delta on Spark, and read them back. Runs with the Python of that Spark:

python -m tests.corpus.make.spark_writer WRITER[,WRITER] JARS FOLDER [PATTERN OF NAMES]
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from tests.corpus.make import delta_tables
from tests.corpus.make.delta_internals import forget
from tests.corpus.make.expected import Expectations, change_ranges, versions_of
from tests.corpus.make.table import Table
from tests.interop.peer_worker import SPARK_SETTINGS

SETTINGS = {name: value for name, value in SPARK_SETTINGS.items() if "partSize" not in name} | {
    "spark.driver.memory": "1g",
    "spark.default.parallelism": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.databricks.delta.identityColumn.enabled": "true",
    # Truncated logs are made of commits with times long ago.
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
    # Spark 3.5 refuses dates before 1582 unless it is told that they are of our calendar.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
}


def start(jars: str) -> Any:
    builder = SparkSession.builder.master("local[1]").appName("corpus")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.config("spark.jars", ",".join(map(str, Path(jars).glob("*.jar")))).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def make_table(spark: Any, folder: Path, name: str, table: Table) -> None:
    path = folder / "tables" / name
    before = settings_of(spark)
    for setting, value in table.settings.items():
        spark.conf.set(setting, value)
    try:
        for step in table.steps:
            if isinstance(step, str):
                spark.sql(step.replace("{t}", f"delta.`{path}`"))
            else:
                step(spark, str(path))
    finally:
        restore_settings(spark, before)
    read_back(spark, folder, name, table.loses_versions)


def settings_of(spark: Any) -> dict[str, str]:
    return {row["key"]: row["value"] for row in spark.sql("SET").collect()}


def restore_settings(spark: Any, before: dict[str, str]) -> None:
    """Undo changes of settings. RESET would undo those of Delta's extension, too."""
    for setting, value in settings_of(spark).items():
        if setting not in before:
            spark.conf.unset(setting)
        elif value != before[setting]:
            spark.conf.set(setting, before[setting])


def read_back(spark: Any, folder: Path, name: str, loses_versions: bool) -> None:
    """Write down what Delta reads of each version, and of the change feed."""
    path = folder / "tables" / name
    forget(spark)
    expectations = Expectations(folder, name)
    for version in versions_of(path):
        try:
            rows = to_arrow(spark.read.format("delta").option("versionAsOf", version).load(str(path)))
        except Exception:
            if expectations.versions or not loses_versions:
                raise
        else:
            expectations.add_version(version, rows)
    for begin, end in change_ranges(path):
        options = {"readChangeFeed": "true", "startingVersion": str(begin), "endingVersion": str(end)}
        expectations.add_changes(begin, end, to_arrow(spark.read.format("delta").options(**options).load(str(path))))
    expectations.active_files = spark.sql(f"DESCRIBE DETAIL delta.`{path}`").first()["numFiles"]
    expectations.save()


def to_arrow(frame: DataFrame) -> pa.Table:
    """Rows, with variants as JSON text with sorted keys."""
    schema = frame.schema
    frame = frame.select(
        [as_text(fn.col(quoted(f.name)), f.dataType).alias(f.name) for f in schema]
        if any(has_variant(f.dataType) for f in schema)
        else [fn.col(quoted(f.name)) for f in schema]
    )
    if hasattr(frame, "toArrow"):
        rows = frame.toArrow()
    else:
        rows = pa.Table.from_batches(frame._collect_as_arrow(), to_arrow_schema(frame.schema))
    columns = [
        pa.array([sort_keys(value, field.dataType) for value in rows.column(i).to_pylist()], rows.schema.field(i).type)
        if has_variant(field.dataType)
        else rows.column(i)
        for i, field in enumerate(schema)
    ]
    return pa.table(columns, schema=pa.schema([(f.name, f.type) for f in rows.schema]))


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def has_variant(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(has_variant(field.dataType) for field in kind)
    if isinstance(kind, ArrayType):
        return has_variant(kind.elementType)
    if isinstance(kind, MapType):
        return has_variant(kind.valueType)
    return kind.typeName() == "variant"


def as_text(column: Column, kind: DataType) -> Column:
    """A column whose variants are JSON text."""
    if not has_variant(kind):
        return column
    if isinstance(kind, StructType):
        fields = [as_text(column.getField(f.name), f.dataType).alias(f.name) for f in kind]
        return fn.when(column.isNotNull(), fn.struct(*fields))
    if isinstance(kind, ArrayType):
        return fn.transform(column, lambda item: as_text(item, kind.elementType))
    if isinstance(kind, MapType):
        return fn.transform_values(column, lambda _, item: as_text(item, kind.valueType))
    return fn.to_json(column)


def sort_keys(value: Any, kind: DataType) -> Any:
    if value is None or not has_variant(kind):
        return value
    if isinstance(kind, StructType):
        return {field.name: sort_keys(value[field.name], field.dataType) for field in kind}
    if isinstance(kind, ArrayType):
        return [sort_keys(item, kind.elementType) for item in value]
    if isinstance(kind, MapType):
        return [(key, sort_keys(item, kind.valueType)) for key, item in value]
    return json.dumps(json.loads(value), sort_keys=True)


def main(writers: str, jars: str, folder: str, wanted: str = "") -> None:
    spark = start(jars)
    tables = {f"{w}--{name}": table for w in writers.split(",") for name, table in delta_tables.TABLES[w].items()}
    failed = []
    for name, table in tables.items():
        if re.search(wanted, name):
            print(name, flush=True)
            try:
                make_table(spark, Path(folder), name, table)
            except Exception as error:
                failed.append(name)
                print(f"  {type(error).__name__} {str(error)[:3000]}", flush=True)
    spark.stop()
    if failed:
        raise SystemExit(f"could not make {', '.join(failed)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
