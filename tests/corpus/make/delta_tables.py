"""The tables that Delta's own Spark library writes, in two versions."""

from __future__ import annotations

from tests.corpus.make import kernel_tables
from tests.corpus.make.delta_internals import (
    age_log,
    checkpoint,
    compact_log,
    delete_inline,
    overwrite_schema,
    set_domain,
)
from tests.corpus.make.table import Table, set_to
from tests.interop.spark_tables import ROWS
from tests.interop.spark_tables import TABLES as INTEROP

DELTA = "spark.databricks.delta"
SMALL_PARTS = {f"{DELTA}.checkpoint.partSize": "3"}
NO_CHECKSUMS = {f"{DELTA}.writeChecksumFile.enabled": "false"}
V2_JSON = SMALL_PARTS | {f"{DELTA}.checkpointV2.topLevelFileFormat": "json"}
V2_PARQUET = SMALL_PARTS | {f"{DELTA}.checkpointV2.topLevelFileFormat": "parquet"}


def properties(**values: str) -> str:
    """TBLPROPERTIES; `_` stands for a dot."""
    return "TBLPROPERTIES (" + ", ".join(f"delta.{k.replace('_', '.')} = '{v}'" for k, v in values.items()) + ")"


def inserts(*ranges: tuple[int, int]) -> list[str]:
    return [f"INSERT INTO {{t}} {ROWS.format(*bounds)}" for bounds in ranges]


def shared(name: str) -> Table:
    """A table that the interoperability tests make, too."""
    return Table(INTEROP[name], NO_CHECKSUMS)


PLAIN = "CREATE TABLE {t} (id BIGINT, n BIGINT, name STRING) USING delta"

VECTORS = [
    f"{PLAIN} PARTITIONED BY (name) {properties(enableDeletionVectors='true')}",
    "INSERT INTO {t} SELECT id, id * 10, concat('p', id % 3) FROM range(30)",
    "DELETE FROM {t} WHERE id % 5 = 2",
    "UPDATE {t} SET n = -n WHERE id IN (0, 6)",
    "DELETE FROM {t} WHERE id % 5 = 3",
    "MERGE INTO {t} t USING (SELECT id, -1 AS n, 'p1' AS name FROM range(25, 33)) s ON s.id = t.id "
    "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *",
    "DELETE FROM {t} WHERE name = 'p2'",
]
"""One DELETE marks rows of several files, and their vectors share a file."""

V2_CHECKPOINT = [
    f"{PLAIN} "
    + properties(
        checkpointPolicy="v2",
        checkpointInterval="4",
        enableDeletionVectors="true",
        checkpoint_writeStatsAsStruct="true",
    ),
    *inserts((0, 4), (4, 8)),
    "DELETE FROM {t} WHERE id IN (1, 6)",
    *inserts((8, 10)),
    "UPDATE {t} SET n = 0 WHERE id = 9",
]

CHECKPOINT_PARTS = [
    f"{PLAIN} "
    + properties(checkpointInterval="5", checkpoint_writeStatsAsJson="false", checkpoint_writeStatsAsStruct="true"),
    *inserts((0, 2), (2, 4), (4, 6)),
    "DELETE FROM {t} WHERE id = 3",
    *inserts((6, 7), (7, 8)),
]

CLUSTERED = [
    f"{PLAIN} CLUSTER BY (id, name)",
    *inserts((0, 20), (20, 40)),
    "OPTIMIZE {t}",
    "DELETE FROM {t} WHERE id % 10 = 1",
    "ALTER TABLE {t} CLUSTER BY (n)",
    "ALTER TABLE {t} CLUSTER BY NONE",
]

TIMES = [
    "CREATE TABLE {t} (id INT, at TIMESTAMP, inner STRUCT<at: TIMESTAMP>) USING delta",
    *[
        step
        for id, kind in enumerate(("INT96", "TIMESTAMP_MILLIS", "TIMESTAMP_MICROS"))
        for step in [
            *set_to(spark__sql__parquet__outputTimestampType=kind),
            f"INSERT INTO {{t}} SELECT {id}, at, named_struct('at', at) FROM VALUES "
            "(TIMESTAMP'1969-12-31 23:59:59.999Z'), (TIMESTAMP'2026-01-31 12:34:56.789Z'), "
            "(TIMESTAMP'1900-01-01 00:00:00Z'), (NULL) AS v(at)",
        ]
    ],
]

LEGACY_LISTS = [
    "CREATE TABLE {t} (id INT, list ARRAY<INT>, full ARRAY<INT>, structs ARRAY<STRUCT<a: INT>>, "
    "lists ARRAY<ARRAY<STRING>>, pairs MAP<STRING, ARRAY<INT>>, price DECIMAL(9, 2)) USING delta",
    "INSERT INTO {t} VALUES (1, array(1, NULL, 3), array(4, 5), array(named_struct('a', 1), NULL), "
    "array(array('x', NULL), array(), NULL), map('k', array(1), 'none', NULL), 1.25), "
    "(2, array(), NULL, array(), array(), map(), -0.01), (3, NULL, array(), NULL, NULL, NULL, NULL)",
]

TRUNCATED = [
    f"{PLAIN} "
    + properties(
        checkpointInterval="3",
        logRetentionDuration="interval 1 days",
        deletedFileRetentionDuration="interval 1 days",
    ),
    *inserts((0, 2), (2, 4), (4, 6)),
    "DELETE FROM {t} WHERE id = 1",
    age_log(3),
    *inserts((6, 8), (8, 10), (10, 12)),
]

EVOLVED = [
    f"CREATE TABLE {{t}} USING delta AS {ROWS.format(0, 3)}",
    "ALTER TABLE {t} ADD COLUMNS (point STRUCT<x: INT>, added DOUBLE)",
    "INSERT INTO {t} VALUES (3, 30, 'name 3', named_struct('x', 1), 1.5)",
    "ALTER TABLE {t} ADD COLUMNS (point.y STRING FIRST, first INT FIRST)",
    "INSERT INTO {t} VALUES (0, 4, 40, 'name 4', named_struct('y', 'text', 'x', 2), 2.5)",
    "ALTER TABLE {t} ALTER COLUMN name COMMENT 'a name'",
    "ALTER TABLE {t} ALTER COLUMN added AFTER id",
    *set_to(spark__databricks__delta__schema__autoMerge__enabled="true"),
    "INSERT INTO {t} SELECT 1 AS first, 5L AS id, 3.5D AS added, 50L AS n, 'name 5' AS name, "
    "named_struct('y', 'more', 'x', 3, 'z', DATE'2026-01-31') AS point, array(1, 2) AS list",
]

UPGRADED = [
    f"{PLAIN} {properties(minReaderVersion='1', minWriterVersion='2')}",
    *inserts((0, 3)),
    "ALTER TABLE {t} SET TBLPROPERTIES (delta.minWriterVersion = 4, delta.enableChangeDataFeed = true)",
    "DELETE FROM {t} WHERE id = 1",
    "ALTER TABLE {t} SET TBLPROPERTIES (delta.enableDeletionVectors = true)",
    "UPDATE {t} SET n = -1 WHERE id = 2",
    "ALTER TABLE {t} SET TBLPROPERTIES (delta.feature.timestampNtz = 'supported')",
    "ALTER TABLE {t} ADD COLUMNS (ntz TIMESTAMP_NTZ)",
    "INSERT INTO {t} VALUES (5, 50, 'name 5', TIMESTAMP_NTZ'2026-01-31 12:00:00.000001')",
]

COMMON = {
    "dv-in-files": Table(VECTORS),
    "mapped-by-name": shared("mapped_by_name"),
    "row-tracking": shared("row_tracking"),
    "ict-later": shared("in_commit_timestamps"),
    "checkpoint-v2-json": Table(V2_CHECKPOINT, NO_CHECKSUMS | V2_JSON),
    "checkpoint-in-parts": Table(CHECKPOINT_PARTS, NO_CHECKSUMS | SMALL_PARTS),
    "clustered": Table(CLUSTERED),
    "partition-values": shared("partition_values"),
    "types": shared("types"),
    "cdf-by-vectors": shared("fed_by_vectors"),
    "times": Table(TIMES, NO_CHECKSUMS),
    "truncated-log": Table(TRUNCATED, loses_versions=True),
}
"""What both versions write."""

NEW = {
    "generated": shared("generated"),
    "identity": shared("identity"),
    "mapped-by-id": shared("mapped_by_id"),
    "upgraded-to-mapping": shared("upgraded_to_mapping"),
    "checkpoint-v2-parquet": Table(V2_CHECKPOINT, NO_CHECKSUMS | V2_PARQUET),
    "cdf-mapped": shared("fed_and_mapped"),
    "evolved": Table(EVOLVED, NO_CHECKSUMS),
    "upgraded": Table(UPGRADED),
    "dv-inline": Table(
        [
            f"{PLAIN} {properties(enableDeletionVectors='true', enableChangeDataFeed='true')}",
            *inserts((0, 10)),
            delete_inline(2, 7),
            *inserts((10, 15)),
            "DELETE FROM {t} WHERE id IN (3, 12)",
            checkpoint,
            delete_inline(0, 1, 3),
        ]
    ),
    "dv-in-checkpoint": Table(
        [
            "CREATE TABLE {t} (id BIGINT, s STRING, inner STRUCT<d: DATE, n: DECIMAL(9, 2)>, at TIMESTAMP) USING delta "
            + properties(enableDeletionVectors="true", checkpointInterval="2", checkpoint_writeStatsAsStruct="true"),
            "INSERT INTO {t} SELECT id, repeat('long text ', int(id)), "
            "named_struct('d', DATE'2026-01-31', 'n', id / 4), "
            "timestamp_micros(id * 1000001) FROM range(10)",
            "DELETE FROM {t} WHERE id % 4 = 1",
            "INSERT INTO {t} VALUES (100, NULL, NULL, NULL)",
        ]
    ),
    "log-compacted": Table(
        [
            f"{PLAIN} {properties(enableDeletionVectors='true')}",
            *inserts((0, 5), (5, 10)),
            "DELETE FROM {t} WHERE id IN (1, 6)",
            compact_log(1, 3),
            *inserts((10, 15)),
            "UPDATE {t} SET n = 0 WHERE id = 7",
            "OPTIMIZE {t}",
            compact_log(4, 6),
            *inserts((15, 16)),
        ]
    ),
    "log-compacted-after-checkpoint": Table(
        [
            f"{PLAIN} PARTITIONED BY (name)",
            *inserts((0, 2), (2, 4)),
            checkpoint,
            "DELETE FROM {t} WHERE id = 1",
            *inserts((4, 6)),
            "ALTER TABLE {t} ADD COLUMNS (more INT)",
            compact_log(1, 5),
            compact_log(3, 5),
            "INSERT INTO {t} VALUES (6, 60, 'name 6', 1)",
        ]
    ),
    "widened": Table(
        [
            "CREATE TABLE {t} (id INT, b TINYINT, s SMALLINT, i INT, i2 INT, d DECIMAL(4, 2), l BIGINT, "
            "items ARRAY<SMALLINT>, pairs MAP<TINYINT, INT>, deep ARRAY<STRUCT<x: INT>>, p TINYINT, day DATE, f FLOAT) "
            "USING delta PARTITIONED BY (p, day, f) "
            + properties(enableTypeWidening="true", feature_timestampNtz="supported"),
            "INSERT INTO {t} VALUES (1, 127, 32767, 2147483647, -5, 99.99, 9223372036854775807, array(1, NULL), "
            "map(1, 2), array(named_struct('x', 3)), 1, DATE'2026-01-31', 0.5), "
            "(2, -128, -32768, -2147483648, NULL, -99.99, -1, NULL, NULL, NULL, NULL, NULL, NULL)",
            "ALTER TABLE {t} CHANGE COLUMN b TYPE SMALLINT",
            "ALTER TABLE {t} CHANGE COLUMN b TYPE BIGINT",
            "ALTER TABLE {t} CHANGE COLUMN s TYPE DOUBLE",
            "ALTER TABLE {t} CHANGE COLUMN i TYPE DOUBLE",
            "ALTER TABLE {t} CHANGE COLUMN i2 TYPE DECIMAL(12, 2)",
            "ALTER TABLE {t} CHANGE COLUMN d TYPE DECIMAL(38, 10)",
            "ALTER TABLE {t} CHANGE COLUMN l TYPE DECIMAL(20, 0)",
            "ALTER TABLE {t} CHANGE COLUMN items.element TYPE INT",
            "ALTER TABLE {t} CHANGE COLUMN pairs.key TYPE INT",
            "ALTER TABLE {t} CHANGE COLUMN pairs.value TYPE BIGINT",
            "ALTER TABLE {t} CHANGE COLUMN deep.element.x TYPE BIGINT",
            "ALTER TABLE {t} CHANGE COLUMN p TYPE INT",
            "ALTER TABLE {t} CHANGE COLUMN day TYPE TIMESTAMP_NTZ",
            "ALTER TABLE {t} CHANGE COLUMN f TYPE DOUBLE",
            "INSERT INTO {t} VALUES (3, 5000000000, 0.1D, 1e300D, 1234567890.12, "
            "1234567890123456789012345678.0123456789, "
            "99999999999999999999, array(100000), map(100000, 5000000000), array(named_struct('x', 5000000000)), "
            "100000, TIMESTAMP_NTZ'2026-01-31 12:34:56.789012', 0.1D)",
            "UPDATE {t} SET i2 = 7.25 WHERE id = 1",
        ],
        NO_CHECKSUMS,
    ),
    "variants": shared("variants"),
    "variants-shredded": shared("shredded_variants"),
    "variants-nested": Table(
        [
            "CREATE TABLE {t} (id INT, inner STRUCT<v: VARIANT, n: INT>, pairs MAP<STRING, VARIANT>, "
            f"deep ARRAY<STRUCT<v: VARIANT>>) USING delta {properties(checkpointInterval='2')}",
            "INSERT INTO {t} SELECT id, named_struct('v', parse_json(j), 'n', id), "
            "map('k', parse_json(j), 'none', NULL), "
            'array(named_struct(\'v\', parse_json(j)), NULL) FROM VALUES (1, \'{"b": 1, "a": [1, {"z": null}]}\'), '
            "(2, 'true'), (3, NULL) AS t(id, j)",
            "INSERT INTO {t} VALUES (4, NULL, NULL, NULL)",
            "DELETE FROM {t} WHERE id = 2",
        ],
        NO_CHECKSUMS | {f"{DELTA}.variant.forceUsePreviewTableFeature": "true"},
    ),
    "ict-from-start": Table(
        [
            f"{PLAIN} {properties(enableInCommitTimestamps='true', checkpointInterval='2')}",
            *inserts((0, 2), (2, 4)),
            "DELETE FROM {t} WHERE id = 3",
        ]
    ),
    "cdf-later": Table(
        [
            f"CREATE TABLE {{t}} USING delta AS {ROWS.format(0, 5)}",
            "DELETE FROM {t} WHERE id = 0",
            "ALTER TABLE {t} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)",
            "UPDATE {t} SET n = -n WHERE id < 3",
            "ALTER TABLE {t} ADD COLUMNS (more STRING)",
            "INSERT INTO {t} VALUES (9, 90, 'name 9', 'text')",
            "DELETE FROM {t} WHERE id IN (1, 9)",
            "ALTER TABLE {t} SET TBLPROPERTIES (note = 'no change of rows')",
        ],
        NO_CHECKSUMS,
    ),
    "cdf-partitioned": Table(
        [
            "CREATE TABLE {t} (id INT, day DATE, kind STRING) USING delta PARTITIONED BY (day, kind) "
            + properties(enableChangeDataFeed="true", checkpointInterval="3"),
            "INSERT INTO {t} VALUES (1, DATE'2026-01-30', 'a b'), (2, DATE'2026-01-31', 'c/d'), (3, NULL, NULL), "
            "(4, DATE'2026-01-31', 'c/d')",
            "UPDATE {t} SET kind = 'moved' WHERE id IN (2, 3)",
            "DELETE FROM {t} WHERE day = DATE'2026-01-30'",
            "INSERT OVERWRITE {t} VALUES (5, DATE'2026-02-01', '50%')",
            "RESTORE TABLE {t} TO VERSION AS OF 2",
            "OPTIMIZE {t}",
        ],
        NO_CHECKSUMS,
    ),
    "names": Table(
        [
            "CREATE TABLE {t} (`a b` INT, `dot.ted` STRING, `back``tick` INT, `größe` DOUBLE, `北京` STRING, "
            "`MixedCase` INT, `select` STRUCT<`in.ner`: INT, `x y`: STRING, `a``b`: INT>, `%20` INT, `quote\"'` INT, "
            "`,;{}()=` STRING, `part of/it` STRING, `_change_kind` INT) USING delta PARTITIONED BY (`part of/it`) "
            + properties(columnMapping_mode="name"),
            "INSERT INTO {t} VALUES (1, 'x', 2, 1.5, 'y', 3, named_struct('a', 1, 'b', 'z', 'c', 2), "
            "4, 5, 'w', 'p q', 6)",
            "ALTER TABLE {t} RENAME COLUMN `dot.ted` TO `now, dotted.`",
            "ALTER TABLE {t} RENAME COLUMN MixedCase TO Mixed_CASE",
            "ALTER TABLE {t} DROP COLUMN `%20`",
            "INSERT INTO {t} VALUES (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
            "DELETE FROM {t} WHERE `a b` IS NULL",
        ],
        NO_CHECKSUMS,
    ),
    "names-unmapped": Table(
        [
            "CREATE TABLE {t} (`dot.ted` INT, `back``tick` INT, `größe` DOUBLE, `北京` STRING, "
            "UPPER STRUCT<`In.Ner`: INT>, "
            "`50%` STRING) USING delta PARTITIONED BY (`50%`)",
            "INSERT INTO {t} VALUES (1, 2, 1.5, 'x', named_struct('a', 1), 'y'), (2, 3, NULL, NULL, NULL, NULL)",
            "DELETE FROM {t} WHERE `dot.ted` = 2",
        ],
        NO_CHECKSUMS,
    ),
    "nested": Table(
        [
            "CREATE TABLE {t} (id INT NOT NULL, "
            "a STRUCT<b: STRUCT<c: STRUCT<d: ARRAY<STRUCT<e: MAP<STRING, ARRAY<INT>>, f: STRING>>>>>, "
            "m MAP<STRUCT<x: INT, y: STRING>, MAP<INT, STRUCT<z: DATE>>>, l ARRAY<ARRAY<ARRAY<DOUBLE>>>, "
            "empty STRUCT<only: STRUCT<inner: INT>>) USING delta",
            "INSERT INTO {t} VALUES (1, named_struct('b', named_struct('c', named_struct('d', array(named_struct("
            "'e', map('k', array(1, NULL), 'none', NULL), 'f', 'x'), NULL)))), "
            "map(named_struct('x', 1, 'y', NULL), map(2, named_struct('z', DATE'2026-01-31'), 3, NULL)), "
            "array(array(array(1.5, NULL), array(), NULL), NULL), named_struct('only', NULL)), "
            "(2, NULL, NULL, NULL, NULL), (3, named_struct('b', NULL), map(), array(), named_struct('only', "
            "named_struct('inner', NULL))), (4, named_struct('b', named_struct('c', named_struct('d', NULL))), "
            "map(named_struct('x', NULL, 'y', 'z'), map()), array(NULL, array(NULL)), NULL)",
            "DELETE FROM {t} WHERE id = 2",
        ],
        NO_CHECKSUMS,
    ),
    "empty": Table([f"{PLAIN} PARTITIONED BY (name)"]),
    "emptied": Table([f"CREATE TABLE {{t}} USING delta AS {ROWS.format(0, 3)}", "DELETE FROM {t}", checkpoint]),
    "one-row": Table(["CREATE TABLE {t} USING delta AS SELECT 1 AS only"]),
    "void": Table(
        [
            "CREATE TABLE {t} USING delta AS SELECT 1 AS id, NULL AS nothing",
            "INSERT INTO {t} VALUES (2, NULL)",
            "ALTER TABLE {t} ADD COLUMNS (more INT)",
            "INSERT INTO {t} VALUES (3, NULL, 4)",
        ],
        NO_CHECKSUMS,
    ),
    "defaults": Table(
        [
            "CREATE TABLE {t} (id INT, n INT DEFAULT 7, s STRING DEFAULT 'it''s', at TIMESTAMP DEFAULT "
            "TIMESTAMP'2026-01-31 12:00:00Z', v VARCHAR(5)) USING delta "
            + properties(feature_allowColumnDefaults="supported"),
            "INSERT INTO {t} (id) VALUES (1), (2)",
            "ALTER TABLE {t} ALTER COLUMN n SET DEFAULT 8",
            "ALTER TABLE {t} ALTER COLUMN s DROP DEFAULT",
            "INSERT INTO {t} (id, v) VALUES (3, 'b')",
        ],
        NO_CHECKSUMS,
    ),
    "constraints": Table(
        [
            "CREATE TABLE {t} (id INT NOT NULL, n INT, inner STRUCT<x: INT NOT NULL>) USING delta",
            "INSERT INTO {t} VALUES (1, 5, named_struct('x', 1))",
            "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (n > 0)",
            "ALTER TABLE {t} ADD CONSTRAINT `odd name` CHECK (id + n < 100 AND inner.x IS NOT NULL)",
            "INSERT INTO {t} VALUES (2, 7, named_struct('x', 2))",
            "ALTER TABLE {t} DROP CONSTRAINT positive",
            "ALTER TABLE {t} ALTER COLUMN id DROP NOT NULL",
            "INSERT INTO {t} VALUES (4, -1, named_struct('x', 3))",
        ],
        NO_CHECKSUMS,
    ),
    "domains": Table(
        [
            f"{PLAIN} {properties(feature_domainMetadata='supported', checkpointInterval='5')}",
            set_domain("app.a", '{"x": 1}'),
            set_domain("app.b", "any text, not only JSON: é"),
            *inserts((0, 3)),
            set_domain("app.a", '{"x": 2}'),
            set_domain("app.b", "", removed=True),
            set_domain("app.c", "{}"),
        ]
    ),
    "app-transactions": Table(
        [
            f"{PLAIN} {properties(checkpointInterval='3')}",
            *[
                step
                for app, version in [("app one", 1), ("app two", 7), ("app one", 2), ("app one", 5)]
                for step in [
                    f"SET {DELTA}.write.txnAppId = {app}",
                    f"SET {DELTA}.write.txnVersion = {version}",
                    *inserts((version, version + 1)),
                ]
            ],
        ]
    ),
    "vacuumed": Table(
        [
            "CREATE TABLE {t} USING delta "
            + properties(enableDeletionVectors="true", feature_vacuumProtocolCheck="supported")
            + f" AS {ROWS.format(0, 5)}",
            "DELETE FROM {t} WHERE id = 1",
            "DELETE FROM {t} WHERE id = 2",
            "OPTIMIZE {t}",
            "REORG TABLE {t} APPLY (PURGE)",
            "VACUUM {t} RETAIN 0 HOURS",
            *inserts((5, 7)),
        ],
        {f"{DELTA}.vacuum.logging.enabled": "true"},
        loses_versions=True,
    ),
    "restored": Table(
        [
            f"{PLAIN} {properties(columnMapping_mode='name', enableDeletionVectors='true')}",
            *inserts((0, 5)),
            "DELETE FROM {t} WHERE id = 3",
            "ALTER TABLE {t} RENAME COLUMN n TO m",
            "ALTER TABLE {t} DROP COLUMN name",
            "INSERT INTO {t} VALUES (9, 90)",
            "RESTORE TABLE {t} TO VERSION AS OF 2",
            "RESTORE TABLE {t} TO VERSION AS OF 0",
            "RESTORE TABLE {t} TO VERSION AS OF 5",
        ],
        NO_CHECKSUMS,
    ),
    "overwritten": Table(
        [
            f"{PLAIN} PARTITIONED BY (name)",
            *inserts((0, 3)),
            "INSERT OVERWRITE {t} VALUES (1, 1, 'a'), (2, 2, 'b')",
            "INSERT INTO {t} REPLACE WHERE name = 'a' SELECT 3, 3, 'a'",
            *set_to(spark__sql__sources__partitionOverwriteMode="dynamic"),
            "INSERT OVERWRITE {t} VALUES (4, 4, 'b'), (5, 5, 'c')",
            *set_to(spark__sql__sources__partitionOverwriteMode="static"),
            overwrite_schema("SELECT 'x' AS other, 1 AS id"),
            "INSERT INTO {t} VALUES ('x', 1)",
        ],
        NO_CHECKSUMS,
    ),
    "decimals": Table(
        [
            "CREATE TABLE {t} (a DECIMAL(38, 0), b DECIMAL(38, 38), c DECIMAL(18, 18), d DECIMAL(9, 0), "
            "e DECIMAL(1, 1), f DECIMAL(20, 5)) USING delta "
            + properties(checkpointInterval="2", checkpoint_writeStatsAsStruct="true"),
            *(
                f"INSERT INTO {{t}} SELECT {sign}{'9' * 38}, CAST('{sign}0.{'9' * 38}' AS DECIMAL(38, 38)), "
                f"{sign}0.{'9' * 18}, {sign}{'9' * 9}, {sign}0.9, {sign}{'9' * 15}.{'9' * 5}"
                for sign in ("", "-")
            ),
            "INSERT INTO {t} VALUES (0, 0, 0, 0, 0, 0)",
            "INSERT INTO {t} VALUES (NULL, NULL, NULL, NULL, NULL, NULL)",
        ],
        NO_CHECKSUMS,
    ),
    "floats": Table(
        [
            "CREATE TABLE {t} (id INT, d DOUBLE, f FLOAT) USING delta",
            "INSERT INTO {t} VALUES (1, double('NaN'), float('NaN')), (2, double('inf'), float('-inf'))",
            "INSERT INTO {t} VALUES (3, -0.0D, float(-0.0)), (4, 4.9e-324D, float(1.4e-45)), "
            "(5, 1.7976931348623157e308D, float(3.4028235e38)), (6, 0.1D, float(0.1))",
        ],
        NO_CHECKSUMS,
    ),
    "legacy-lists": Table(LEGACY_LISTS, NO_CHECKSUMS | {"spark.sql.parquet.writeLegacyFormat": "true"}),
    "codecs": Table(
        [
            f"{PLAIN}",
            *[
                step
                for i, codec in enumerate(("uncompressed", "gzip", "zstd", "lz4_raw", "snappy"))
                for step in [*set_to(spark__sql__parquet__compression__codec=codec), *inserts((i * 5, i * 5 + 5))]
            ],
        ],
        NO_CHECKSUMS,
    ),
    "partition-times": Table(
        [
            "CREATE TABLE {t} (id INT, at TIMESTAMP) USING delta PARTITIONED BY (at)",
            "SET TIME ZONE 'UTC'",
            f"SET {DELTA}.write.utcTimestampPartitionValues = false",
            "INSERT INTO {t} VALUES (1, TIMESTAMP'2026-01-31 12:34:56.789012Z'), (2, TIMESTAMP'1969-12-31 23:59:59Z')",
            f"SET {DELTA}.write.utcTimestampPartitionValues = true",
            "SET TIME ZONE 'America/Sao_Paulo'",
            "INSERT INTO {t} VALUES (3, TIMESTAMP'2026-01-31 12:34:56.789012Z'), (4, TIMESTAMP'1900-01-01 00:00:00Z'), "
            "(5, NULL)",
        ],
        NO_CHECKSUMS,
    ),
    "partition-types": Table(
        [
            "CREATE TABLE {t} (id INT, b TINYINT, s SMALLINT, i INT, l BIGINT, f FLOAT, text STRING) USING delta "
            + "PARTITIONED BY (b, s, i, l, f, text) "
            + properties(checkpointInterval="2", checkpoint_writeStatsAsStruct="true"),
            "INSERT INTO {t} VALUES (1, -128, -32768, -2147483648, -9223372036854775808, float('-inf'), ' '), "
            "(2, 127, 32767, 2147483647, 9223372036854775807, 0.1, 'null'), "
            "(3, 0, 0, 0, 0, float('NaN'), '__HIVE_DEFAULT_PARTITION_'), (4, NULL, NULL, NULL, NULL, NULL, '')",
            "INSERT INTO {t} VALUES (5, 1, 1, 1, 1, -0.0, '.\\t\\\\*'), (6, 1, 1, 1, 1, 1e30, 'ünïcödé 🙂'), "
            "(7, 1, 1, 1, 1, 1.5, '2026-01-31'), (8, 1, 1, 1, 1, 1.5, '%25%2F')",
        ],
        NO_CHECKSUMS,
    ),
    "random-prefixes": Table(
        [
            f"{PLAIN} {properties(randomizeFilePrefixes='true', randomPrefixLength='4', enableDeletionVectors='true')}",
            *inserts((0, 5), (5, 10)),
            "DELETE FROM {t} WHERE id IN (1, 7)",
        ],
        NO_CHECKSUMS,
    ),
    "few-statistics": Table(
        [
            "CREATE TABLE {t} (a INT, b STRING, inner STRUCT<c: INT, d: INT>, `e.f` INT) USING delta "
            + properties(dataSkippingNumIndexedCols="1"),
            "INSERT INTO {t} VALUES (1, 'x', named_struct('c', 1, 'd', 2), 3)",
            "ALTER TABLE {t} SET TBLPROPERTIES (delta.dataSkippingStatsColumns = 'inner.d,`e.f`')",
            "INSERT INTO {t} VALUES (2, 'y', named_struct('c', 3, 'd', 4), 5)",
            f"SET {DELTA}.stats.collect = false",
            "INSERT INTO {t} VALUES (3, 'z', NULL, NULL)",
        ],
        NO_CHECKSUMS,
    ),
    "feature-dropped": Table(
        [
            f"CREATE TABLE {{t}} USING delta {properties(enableDeletionVectors='true')} AS {ROWS.format(0, 5)}",
            "DELETE FROM {t} WHERE id = 2",
            "ALTER TABLE {t} DROP FEATURE deletionVectors",
            *inserts((5, 7)),
        ]
    ),
    "mapping-removed": Table(
        [
            f"{PLAIN} {properties(columnMapping_mode='name')}",
            *inserts((0, 3)),
            "ALTER TABLE {t} RENAME COLUMN n TO number",
            "ALTER TABLE {t} SET TBLPROPERTIES (delta.columnMapping.mode = 'none')",
            "INSERT INTO {t} VALUES (3, 30, 'name 3')",
        ],
        NO_CHECKSUMS,
    ),
    "iceberg-compatible": Table(
        [
            "CREATE TABLE {t} (id BIGINT, items ARRAY<STRUCT<a: INT>>, pairs MAP<STRING, ARRAY<INT>>, p STRING) "
            f"USING delta PARTITIONED BY (p) {properties(columnMapping_mode='name', enableIcebergCompatV2='true')}",
            "INSERT INTO {t} VALUES (1, array(named_struct('a', 1)), map('k', array(1, 2)), 'x'), "
            "(2, NULL, NULL, NULL)",
        ],
        NO_CHECKSUMS,
    ),
    "materialized-partitions": Table(
        [
            f"{PLAIN} PARTITIONED BY (name) {properties(feature_materializePartitionColumns='supported')}",
            *inserts((0, 3)),
        ],
        NO_CHECKSUMS,
    ),
    "row-tracking-later": Table(
        [
            f"CREATE TABLE {{t}} USING delta AS {ROWS.format(0, 5)}",
            *inserts((5, 8)),
            "ALTER TABLE {t} SET TBLPROPERTIES (delta.enableRowTracking = true)",
            "UPDATE {t} SET n = -1 WHERE id IN (1, 6)",
            "OPTIMIZE {t}",
            "MERGE INTO {t} t USING (SELECT 1L AS id UNION ALL SELECT 20L) s ON s.id = t.id "
            "WHEN MATCHED THEN UPDATE SET n = -2 WHEN NOT MATCHED THEN INSERT (id, n, name) VALUES (s.id, 0, 'new')",
        ],
        NO_CHECKSUMS,
    ),
    "truncated-log-v2": Table(
        [
            f"{PLAIN} "
            + properties(
                checkpointInterval="3",
                logRetentionDuration="interval 1 days",
                deletedFileRetentionDuration="interval 1 days",
                checkpointPolicy="v2",
                enableInCommitTimestamps="false",
                enableDeletionVectors="true",
            ),
            *inserts((0, 2), (2, 4)),
            "DELETE FROM {t} WHERE id = 1",
            age_log(3),
            *inserts((4, 6), (6, 8), (8, 10), (10, 12)),
        ],
        V2_PARQUET,
        loses_versions=True,
    ),
}

OLD = {
    "cdf-by-copies": shared("fed_by_copies"),
    # Spark 3.5 widens no further than to INT.
    "widened": Table(
        [
            "CREATE TABLE {t} (id INT, b TINYINT, s SMALLINT, inner STRUCT<a: TINYINT>, p TINYINT) USING delta "
            f"PARTITIONED BY (p) {properties(enableTypeWidening='true')}",
            "INSERT INTO {t} SELECT int(id), tinyint(-id), smallint(id), named_struct('a', tinyint(id)), "
            "tinyint(id % 2) FROM range(4)",
            "ALTER TABLE {t} CHANGE COLUMN b TYPE SMALLINT",
            "ALTER TABLE {t} CHANGE COLUMN b TYPE INT",
            "ALTER TABLE {t} CHANGE COLUMN s TYPE INT",
            "ALTER TABLE {t} CHANGE COLUMN inner.a TYPE INT",
            "ALTER TABLE {t} CHANGE COLUMN p TYPE SMALLINT",
            "INSERT INTO {t} VALUES (9, 100000, 100000, named_struct('a', 100000), 1000)",
        ]
    ),
}

TABLES = {"delta44": COMMON | NEW, "delta33": COMMON | OLD, "kernel44": kernel_tables.TABLES}
"""Tables by their writers."""
