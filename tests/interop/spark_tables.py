"""Tables that Delta's own Spark library writes."""

ROWS = "SELECT id, id * 10 AS n, concat('name ', id) AS name FROM range({}, {})"
ODD = "explode(array('a b', '50%', '%20', 'x/y', '#?&=+', '10:30', 'São Paulo', '北京', 'a\"b', NULL))"

FED = [
    "INSERT INTO {t} VALUES (100, 1000, 'name 1'), (101, 1010, NULL)",
    "DELETE FROM {t} WHERE id % 7 = 3",
    "UPDATE {t} SET n = -n WHERE id BETWEEN 20 AND 30",
    "MERGE INTO {t} t USING (SELECT id, id * 10 AS n, 'name 2' AS name FROM range(45, 55)) s ON s.id = t.id "
    "WHEN MATCHED AND s.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "OPTIMIZE {t}",
    "INSERT OVERWRITE {t} VALUES (1, 1, 'name 1'), (2, 2, 'name 2')",
]
"""Statements whose changes are compared."""

# Each statement is a commit, mostly. {t} is the table, {folder} has all of them.
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
    "fed_by_vectors": [
        "CREATE TABLE {t} USING delta TBLPROPERTIES (delta.enableDeletionVectors = true, "
        f"delta.enableChangeDataFeed = true) AS {ROWS.format(0, 50)}",
        *FED,
        "RESTORE TABLE {t} TO VERSION AS OF 2",
        "REORG TABLE {t} APPLY (PURGE)",
        "DELETE FROM {t}",
    ],
    "fed_by_copies": [
        "CREATE TABLE {t} USING delta PARTITIONED BY (name) TBLPROPERTIES (delta.enableDeletionVectors = false, "
        f"delta.enableChangeDataFeed = true) AS SELECT id, n, 'name 1' AS name FROM ({ROWS.format(0, 50)})",
        *FED,
        "RESTORE TABLE {t} TO VERSION AS OF 2",
        "DELETE FROM {t} WHERE name = 'name 1'",
    ],
    "fed_and_mapped": [
        "CREATE TABLE {t} (id BIGINT, n BIGINT, name STRING) USING delta PARTITIONED BY (name) TBLPROPERTIES "
        "(delta.columnMapping.mode = 'name', delta.enableChangeDataFeed = true, delta.enableRowTracking = true)",
        f"INSERT INTO {{t}} SELECT id, n, 'name 1' AS name FROM ({ROWS.format(0, 50)})",
        *FED,
    ],
    "cloned": [
        "CREATE TABLE {t} SHALLOW CLONE delta.`{folder}/deletion_vectors`",
        f"INSERT INTO {{t}} {ROWS.format(5000, 5010)}",
        "DELETE FROM {t} WHERE id % 100 = 2",
        "UPDATE {t} SET n = 0 WHERE id = 100",
    ],
    "identity": [
        "CREATE TABLE {t} (id BIGINT GENERATED ALWAYS AS IDENTITY, n INT) USING delta",
        "INSERT INTO {t} (n) VALUES (1), (2), (3)",
        "DELETE FROM {t} WHERE n = 2",
    ],
}
