"""Tables that Delta's own Spark library writes. `test_delta_spark.py` runs this with a Python that has PySpark:

    spark_tables.py JARS FOLDER

For each table, FOLDER gets `NAME/` (the table), `NAME.VERSION.parquet` (the rows of some versions, as Spark reads them)
and `NAME.json` (its commits: version and time).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

if TYPE_CHECKING:  # the tests import this module for its list of tables
    from pyspark.sql import SparkSession

ROWS = "SELECT id, id * 10 AS n, concat('name ', id) AS name FROM range({}, {})"
ODD = "explode(array('a b', '50%', '%20', 'x/y', '#?&=+', '10:30', 'São Paulo', '北京', 'a\"b', NULL))"

# Where the rows are not simply `*`: what to select, so that Parquet can hold it.
SELECT = {
    "row_tracking": "*, _metadata.row_id AS _row_id, _metadata.row_commit_version AS _row_commit_version",
    "variants": "id, to_json(v) AS v, transform(list, x -> to_json(x)) AS list",
    "shredded_variants": "id, to_json(v) AS v",
}

# Each statement is a commit, mostly. {t} is the table.
TABLES: dict[str, list[str]] = {
    "deletion_vectors": [
        f"CREATE TABLE {{t}} USING delta TBLPROPERTIES (delta.enableDeletionVectors = true) AS {ROWS.format(0, 1000)}",
        f"INSERT INTO {{t}} {ROWS.format(1000, 2000)}",
        "DELETE FROM {t} WHERE id % 7 = 3",
        "UPDATE {t} SET n = -n WHERE id BETWEEN 500 AND 520",
        f"MERGE INTO {{t}} t USING ({ROWS.format(1990, 2010)}) s ON s.id = t.id "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *",
        "DELETE FROM {t} WHERE id % 7 = 4",
    ],
    "mapped_by_name": [
        "CREATE TABLE {t} (id BIGINT, point STRUCT<x: INT, `odd name, ;=`: STRING>, city STRING, gone INT) USING delta "
        "PARTITIONED BY (city) TBLPROPERTIES (delta.columnMapping.mode = 'name')",
        "INSERT INTO {t} SELECT id, named_struct('x', int(id), 'y', 'text'), concat('city ', id % 3), 1 FROM range(30)",
        "ALTER TABLE {t} RENAME COLUMN id TO `the id`",
        "ALTER TABLE {t} RENAME COLUMN point.x TO z",
        "ALTER TABLE {t} RENAME COLUMN city TO town",
        "ALTER TABLE {t} DROP COLUMN gone",
        "ALTER TABLE {t} ADD COLUMNS (gone STRING, point.more DOUBLE)",
        "INSERT INTO {t} VALUES (100, named_struct('z', 1, 'y', 'new', 'more', 1.5D), 'city 1', 'back')",
    ],
    "mapped_by_id": [
        "CREATE TABLE {t} (id BIGINT, items ARRAY<STRUCT<a: INT, b: STRING>>, pairs MAP<STRING, STRUCT<c: INT>>) "
        "USING delta TBLPROPERTIES (delta.columnMapping.mode = 'id')",
        "INSERT INTO {t} SELECT id, array(named_struct('a', int(id), 'b', 'x'), NULL), map('k', named_struct('c', 1)) "
        "FROM range(20)",
        "ALTER TABLE {t} RENAME COLUMN items.element.a TO renamed",
        "INSERT INTO {t} VALUES (50, array(named_struct('renamed', 5, 'b', 'y')), map())",
    ],
    "upgraded_to_mapping": [
        f"CREATE TABLE {{t}} USING delta AS {ROWS.format(0, 10)}",
        "ALTER TABLE {t} SET TBLPROPERTIES (delta.columnMapping.mode = 'name', delta.minReaderVersion = 2, "
        "delta.minWriterVersion = 5)",
        "ALTER TABLE {t} RENAME COLUMN n TO number",
        "INSERT INTO {t} VALUES (11, 5, 'after')",
    ],
    "widened": [
        "CREATE TABLE {t} (id INT, small TINYINT, f FLOAT, price DECIMAL(6, 2), day DATE, inner STRUCT<a: SMALLINT>, "
        "part INT) USING delta PARTITIONED BY (part) TBLPROPERTIES (delta.enableTypeWidening = true, "
        "delta.feature.timestampNtz = 'supported')",
        "INSERT INTO {t} SELECT int(id), tinyint(id), float(id) / 3, 12.34, DATE'1500-01-01', "
        "named_struct('a', smallint(id)), int(id % 2) FROM range(10)",
        "ALTER TABLE {t} CHANGE COLUMN id TYPE BIGINT",
        "ALTER TABLE {t} CHANGE COLUMN small TYPE INT",
        "ALTER TABLE {t} CHANGE COLUMN f TYPE DOUBLE",
        "ALTER TABLE {t} CHANGE COLUMN price TYPE DECIMAL(12, 4)",
        "ALTER TABLE {t} CHANGE COLUMN day TYPE TIMESTAMP_NTZ",
        "ALTER TABLE {t} CHANGE COLUMN inner.a TYPE INT",
        "ALTER TABLE {t} CHANGE COLUMN part TYPE BIGINT",
        "INSERT INTO {t} VALUES (5000000000, 100000, 0.1D, 12345678.1234, TIMESTAMP_NTZ'2026-01-01 01:02:03.4', "
        "named_struct('a', 100000), 5000000000)",
    ],
    "row_tracking": [
        "CREATE TABLE {t} USING delta TBLPROPERTIES (delta.enableRowTracking = true, "
        f"delta.enableDeletionVectors = true) AS {ROWS.format(0, 100)}",
        f"INSERT INTO {{t}} {ROWS.format(100, 150)}",
        "UPDATE {t} SET n = -1 WHERE id % 10 = 5",
        "DELETE FROM {t} WHERE id < 20",
        "OPTIMIZE {t}",
        f"INSERT INTO {{t}} {ROWS.format(200, 210)}",
    ],
    "in_commit_timestamps": [
        f"CREATE TABLE {{t}} USING delta AS {ROWS.format(0, 5)}",
        f"INSERT INTO {{t}} {ROWS.format(5, 10)}",
        "ALTER TABLE {t} SET TBLPROPERTIES (delta.enableInCommitTimestamps = true)",
        f"INSERT INTO {{t}} {ROWS.format(10, 15)}",
        f"INSERT INTO {{t}} {ROWS.format(15, 20)}",
    ],
    "v2_checkpoints": [
        "CREATE TABLE {t} (id BIGINT, n BIGINT, name STRING) USING delta PARTITIONED BY (name) TBLPROPERTIES "
        "(delta.checkpointPolicy = 'v2', delta.checkpointInterval = 3, delta.enableDeletionVectors = true, "
        "delta.checkpoint.writeStatsAsStruct = true)",
        *[f"INSERT INTO {{t}} {ROWS.format(i * 5, i * 5 + 5)}" for i in range(4)],
        "DELETE FROM {t} WHERE id = 7 OR id = 12",
        "INSERT INTO {t} VALUES (100, NULL, NULL)",
        "DELETE FROM {t} WHERE name = 'name 1'",
    ],
    "parts_of_checkpoints": [
        "CREATE TABLE {t} (id BIGINT, n BIGINT, name STRING) USING delta PARTITIONED BY (name) TBLPROPERTIES "
        "(delta.checkpointInterval = 2, delta.checkpoint.writeStatsAsJson = false, "
        "delta.checkpoint.writeStatsAsStruct = true)",
        *[f"INSERT INTO {{t}} {ROWS.format(i * 5, i * 5 + 5)}" for i in range(5)],
    ],
    "variants": [
        "CREATE TABLE {t} (id INT, v VARIANT, list ARRAY<VARIANT>) USING delta",
        """INSERT INTO {t} SELECT id, parse_json(j), array(parse_json(j), NULL) FROM VALUES
        (1, '{"a": 1, "b": [true, null, 1.5, 1e300, "é\\\\n"], "c": {"d": 12345678901234567890}}'),
        (2, '"text"'), (3, 'null'), (4, '[]'), (5, '{}'), (6, '-0.000001'), (7, NULL) AS t(id, j)""",
        "INSERT INTO {t} SELECT 8, to_variant_object(named_struct('d', DATE'2026-01-31', "
        "'t', TIMESTAMP'2026-01-31 12:00:00.5Z', "
        "'n', TIMESTAMP_NTZ'2026-01-31 12:00:00', 'f', float(0.1), 'raw', X'00FF', 'x', 12.340)), NULL",
    ],
    "shredded_variants": [
        "CREATE TABLE {t} (id BIGINT, v VARIANT) USING delta TBLPROPERTIES (delta.enableVariantShredding = true)",
        """INSERT INTO {t} SELECT id, parse_json(concat(
        '{"a": ', id, ', "s": "text ', id, '", "l": [1, "x"], "o": {"p": ', id / 4, '}, "k', id % 3, '": null}'))
        FROM range(200)""",
        "INSERT INTO {t} VALUES (1000, parse_json('[1, 2]')), (1001, NULL), "
        '(1002, parse_json(\'{"a": "not a number"}\'))',
    ],
    "clustered": [
        "CREATE TABLE {t} (id BIGINT, n BIGINT, name STRING) USING delta CLUSTER BY (id, name)",
        f"INSERT INTO {{t}} {ROWS.format(0, 500)}",
        "OPTIMIZE {t}",
        "DELETE FROM {t} WHERE id % 50 = 1",
        "ALTER TABLE {t} CLUSTER BY NONE",
    ],
    "generated": [
        "CREATE TABLE {t} (at TIMESTAMP, day DATE GENERATED ALWAYS AS (CAST(at AS DATE)), n INT DEFAULT 7) "
        "USING delta PARTITIONED BY (day) TBLPROPERTIES (delta.feature.allowColumnDefaults = 'supported', "
        "delta.enableChangeDataFeed = true)",
        "INSERT INTO {t} (at) VALUES (TIMESTAMP'1969-12-31 23:59:59.999999Z'), (TIMESTAMP'2026-01-31 12:00:00Z')",
        "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (n > 0)",
        "UPDATE {t} SET n = 8 WHERE day = DATE'2026-01-31'",
    ],
    "partition_values": [
        "CREATE TABLE {t} (id BIGINT, city STRING, ntz TIMESTAMP_NTZ, at TIMESTAMP, day DATE, price DECIMAL(9, 3), "
        "f DOUBLE, raw BINARY, flag BOOLEAN) USING delta PARTITIONED BY (city, ntz, at, day, price, f, raw, flag)",
        "INSERT INTO {t} SELECT 1, col1, TIMESTAMP_NTZ'2026-01-31 12:34:56.789012', "
        "TIMESTAMP'2026-01-31 12:34:56.789Z', DATE'0001-01-01', 1.500, double('NaN'), X'41', true "
        f"FROM (SELECT {ODD} AS col1)",
        "INSERT INTO {t} VALUES (2, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL), "
        "(3, 'x', TIMESTAMP_NTZ'1969-12-31 23:59:59.999999', TIMESTAMP'1900-01-01 00:00:00Z', DATE'9999-12-31', "
        "-0.001, -1.5e300, X'C3A9', false)",
    ],
    "types": [
        "CREATE TABLE {t} (id BIGINT, b TINYINT, s SMALLINT, i INT, f FLOAT, d DOUBLE, big DECIMAL(38, 10), t STRING, "
        "raw BINARY, day DATE, at TIMESTAMP, ntz TIMESTAMP_NTZ, "
        "deep ARRAY<MAP<STRING, ARRAY<STRUCT<x: INT>>>>) USING delta",
        "INSERT INTO {t} VALUES (1, -128, -32768, -2147483648, float('inf'), double('NaN'), "
        "1234567890123456789012345678.0123456789, 'é\\n', X'', DATE'0001-01-01', TIMESTAMP'0001-01-01 00:00:00Z', "
        "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', array(map('k', array(named_struct('x', 1), NULL)), NULL)), "
        "(2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    ],
}


def session(jars: Path) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("lakeport-interop")
    settings = {
        "spark.jars": ",".join(map(str, jars.glob("*.jar"))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.databricks.delta.snapshotPartitions": "2",
        # So few actions that checkpoints have parts or sidecars.
        "spark.databricks.delta.checkpoint.partSize": "4",
        "spark.databricks.delta.deletionVectors.useMetadataRowIndex": "true",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def write(spark: SparkSession, folder: Path, name: str, statements: list[str]) -> None:
    table = f"delta.`{folder / name}`"
    for statement in statements:
        spark.sql(statement.replace("{t}", table))
    history = spark.sql(f"DESCRIBE HISTORY {table}").select("version", "timestamp").collect()
    commits = {row["version"]: int(row["timestamp"].timestamp() * 1000) for row in history}
    (folder / f"{name}.json").write_text(json.dumps(commits))
    latest = max(commits)
    for version in sorted({latest, latest // 2, 1}):
        rows = spark.sql(f"SELECT {SELECT.get(name, '*')} FROM {table} VERSION AS OF {version}")
        pq.write_table(rows.toArrow(), folder / f"{name}.{version}.parquet")


def main(jars: Path, folder: Path) -> None:
    spark = session(jars)
    spark.sparkContext.setLogLevel("ERROR")
    for name, statements in TABLES.items():
        write(spark, folder, name, statements)
        print(name, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
