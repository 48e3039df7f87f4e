"""A pipeline on Spark: follow a shared table, clean its rows, and keep a Delta table and its Iceberg mirror up to date.

    python examples/pipeline.py birch.share#sales.eu.orders clean_orders

Each run takes the changes since the run before. `make demo` runs it twice.
"""

import sys
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

import lakeport
import lakeport.spark
from lakeport import iceberg, tables
from lakeport.errors import TableNotFoundError

COLUMNS = {"id": "long", "city": "string", "amount": "long"}
PROPERTIES = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}


def follow(spark: SparkSession, source: str, target: str) -> None:
    """Bring the Delta table `target` up to date with the shared table `source`, a profile#share.schema.table."""
    create_once(target)
    changes = (
        spark.readStream.format("deltaSharing")
        .option("readChangeFeed", "true")  # inserts, updates and deletes
        .option("startingVersion", 0)
        .load(source)
    )
    query = (
        clean(changes)
        .writeStream.foreachBatch(partial(merge, target))
        .option("checkpointLocation", f"{target}.checkpoint")  # remembers how far the stream was read
        .trigger(availableNow=True)  # stop at the end; with processingTime="1 minute" it keeps running
        .start()
    )
    query.awaitTermination()


def create_once(target: str) -> None:
    try:
        lakeport.scan(target).count()
    except TableNotFoundError:
        tables.create(target, schema=COLUMNS, properties=PROPERTIES)


def clean(changes: DataFrame) -> DataFrame:
    """Write " oslo" and "OSLO" as "Oslo". An order without an amount is not wanted: treat it as deleted."""
    return (
        changes.where("_change_type <> 'update_preimage'")
        .withColumn("city", f.initcap(f.trim("city")))
        .withColumn("deleted", f.expr("_change_type = 'delete' OR amount IS NULL"))
    )


def merge(target: str, changes: DataFrame, batch: int) -> None:
    """Merge a batch into the table: the newest change of each order. Spark may repeat a batch; that does no harm."""
    newest_first = Window.partitionBy("id").orderBy(f.desc("_commit_version"))
    newest = changes.withColumn("rank", f.row_number().over(newest_first)).where("rank = 1")
    merge_rows(target, newest.toArrow(), changes.sparkSession)


def merge_rows(target: str, rows: Any, spark: SparkSession | None) -> None:
    values = {name: f"source.{name}" for name in COLUMNS}
    (
        tables.merge(target, rows, "target.id = source.id", spark=spark)
        .when_matched_delete("source.deleted")
        .when_matched_update(values)
        .when_not_matched_insert(values, "NOT source.deleted")
        .execute()
    )


if __name__ == "__main__":
    source, target = sys.argv[1:]
    follow(lakeport.spark.session("pipeline"), source, target)
    mirror = iceberg.convert(target)
    print(f"{target} is at version {mirror.version}; its Iceberg mirror is {mirror.metadata_location}")
