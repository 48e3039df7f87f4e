"""What Lakeport writes, Spark, DuckDB and deltalake read, row for row, at every version; Spark writes on top of it."""

import shutil
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from operator import eq, gt, le
from pathlib import Path
from typing import Any

import pytest

import lakeport
from lakeport import tables
from lakeport.kernel.definition import supported_features
from tests.interop.peers import Peer
from tests.interop.rows import (
    assert_spark_reads_the_same,
    assert_spark_reads_the_same_changes,
    duckdb_query,
    read_by_deltalake,
    versions,
)
from tests.interop.written_tables import SKIPPED_BY, TABLES, rows
from tests.rows import canonical

FEEDS: dict[str, list[tuple[int, int]]] = {
    "with_vectors": [(0, 15)],
    "with_feed": [(0, 15), (11, 12)],
    "with_everything": [(0, 15), (2, 5)],
    "tracked_by_id": [(0, 13)],
    "partition_values": [(0, 3)],
    "types": [(0, 4)],
    "checked": [(0, 8)],
    "widened": [(8, 12)],
    "variants": [(0, 4)],
    "clustered": [(0, 2), (3, 4)],
    "cleaned_up": [(8, 9)],
}
"""Spark reads no changes from before a type or a name changed together with those from after it."""


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written")
    for name, write in TABLES.items():
        write(str(folder / name))
    return folder


each_table = pytest.mark.parametrize("name", TABLES)


@each_table
def test_spark_reads_the_same_rows_at_every_version(spark: Peer, written: Path, name: str) -> None:
    path = str(written / name)
    assert_spark_reads_the_same(spark, path, versions(path))


@pytest.mark.parametrize("name", FEEDS)
def test_spark_reads_the_same_changes(spark: Peer, written: Path, name: str) -> None:
    assert_spark_reads_the_same_changes(spark, str(written / name), FEEDS[name])


def test_every_table_with_a_change_feed_is_compared(written: Path) -> None:
    properties = {name: lakeport.scan(str(written / name)).snapshot.properties for name in TABLES}
    assert {name for name, found in properties.items() if "delta.enableChangeDataFeed" in found} == FEEDS.keys()


@each_table
def test_spark_tells_the_same_history_and_details(spark: Peer, written: Path, name: str) -> None:
    path = str(written / name)
    frame = lakeport.scan(path)
    history, details = spark.read(f"DESCRIBE HISTORY delta.`{path}`", f"DESCRIBE DETAIL delta.`{path}`")
    told = [(c["version"], round(c["timestamp"].timestamp() * 1000), c["operation"]) for c in history.to_pylist()]
    assert told == [(commit.version, commit.timestamp, commit.operation) for commit in frame.history()]
    (detail,) = details.to_pylist()
    files, snapshot = frame.files(), frame.snapshot
    assert (detail["numFiles"], detail["sizeInBytes"]) == (len(files), sum(file.size for file in files))
    assert detail["partitionColumns"] == list(snapshot.partition_columns)
    assert dict(detail["properties"]) == snapshot.properties
    if detail["minWriterVersion"] == 7:
        assert set(detail["tableFeatures"]) == supported_features(snapshot.protocol)


def test_spark_knows_what_the_table_is_clustered_by(spark: Peer, written: Path) -> None:
    (details,) = spark.read(f"DESCRIBE DETAIL delta.`{written / 'clustered'}`")
    assert details["clusteringColumns"].to_pylist() == [["id", "s.b"]]


NULL_PARTITIONS = {"with_everything", "renamed_by_name", "renamed_by_id", "replaced"}
"""DuckDB 1.5 reads nulls from the partition columns of tables with column mapping, whoever has written them."""


@pytest.mark.parametrize("name", [name for name in TABLES if name != "variants"])
def test_duckdb_reads_the_same_rows_at_every_version(duckdb: Peer, written: Path, name: str) -> None:
    path = str(written / name)
    for version in versions(path):
        frame = lakeport.scan(path).at(version=version)
        (theirs,) = duckdb.read(duckdb_query(path, version))
        ours = frame.to_arrow()
        assert theirs.schema.names == ours.schema.names
        left_out = list(frame.snapshot.partition_columns) if name in NULL_PARTITIONS else []
        assert canonical(theirs.drop_columns(left_out)) == canonical(ours.drop_columns(left_out)), f"version {version}"


@pytest.mark.parametrize("name", [name for name in TABLES if name != "widened"])
def test_deltalake_reads_the_same_rows_at_every_version(written: Path, name: str) -> None:
    path = str(written / name)
    for version in versions(path):
        theirs, ours = read_by_deltalake(path, version), lakeport.scan(path).at(version=version).to_arrow()
        assert theirs.schema.names == ours.schema.names
        assert canonical(theirs) == canonical(ours), f"version {version}"


def literal(value: Any) -> str:
    match value:
        case float():
            return f"CAST('{value}' AS DOUBLE)"
        case datetime():
            return f"{'TIMESTAMP' if value.tzinfo else 'TIMESTAMP_NTZ'} '{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case Decimal():
            return str(value)
    return f"'{value}'"


def ordered(value: Any) -> Any:
    """A key for Spark's order: NaN is equal to itself, and larger than all other numbers."""
    return (value != value, 0 if value != value else value) if isinstance(value, float) else value


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {"=": eq, "<=": le, ">": gt}


def expected_ids(rows: list[dict[str, Any]], operator: str, values: dict[str, Any]) -> list[int]:
    """The rows for which a comparison of some column with its value is true."""
    compare = COMPARISONS[operator]
    return [
        row["id"]
        for row in rows
        if any(row[c] is not None and compare(ordered(row[c]), ordered(v)) for c, v in values.items())
    ]


@pytest.mark.parametrize("name", ["skipped", "skipped_by_structs"])
def test_spark_skips_no_file_that_has_rows(spark: Peer, written: Path, name: str) -> None:
    """Values of all columns are compared at once: each file has values in one column only."""
    path = str(written / name)
    rows = lakeport.scan(path).to_arrow().to_pylist()
    expected: dict[str, list[int]] = {}
    for number in range(max(map(len, SKIPPED_BY.values()))):
        chosen = {column: found[number] for column, found in SKIPPED_BY.items() if number < len(found)}
        values = {column: value for column, value in chosen.items() if value is not None}
        for operator in COMPARISONS:
            condition = " OR ".join(f"{column} {operator} {literal(value)}" for column, value in values.items())
            expected[condition] = expected_ids(rows, operator, values)
    found = spark.read(*(f"SELECT id FROM delta.`{path}` WHERE {condition}" for condition in expected))
    for condition, theirs in zip(expected, found, strict=True):
        assert sorted(theirs["id"].to_pylist()) == sorted(expected[condition]), condition


@pytest.mark.parametrize("name", ["skipped", "skipped_by_structs"])
def test_spark_opens_no_file_that_our_statistics_rule_out(
    spark: Peer, written: Path, tmp_path: Path, name: str
) -> None:
    path = shutil.copytree(written / name, tmp_path / name)
    wanted = lakeport.scan(str(path)).where("day = DATE '1969-12-31'")
    needed = {file.path for file in wanted.files()}
    for file in path.rglob("file=*/*.parquet"):
        if str(file) not in needed:
            file.unlink()
    (theirs,) = spark.read(f"SELECT id FROM delta.`{path}` WHERE day = DATE'1969-12-31'")
    assert canonical(theirs) == canonical(wanted.select("id").to_arrow())
    assert theirs.num_rows == 2


def test_spark_does_not_repeat_what_an_application_has_written(spark: Peer, written: Path, tmp_path: Path) -> None:
    path = str(shutil.copytree(written / "plain", tmp_path / "plain"))
    setting = "spark.databricks.delta.write.txn"
    insert = f"INSERT INTO delta.`{path}` (id) VALUES (1000)"
    for version, expected in ((7, 13), (8, 14)):
        spark.run(f"SET {setting}AppId = story", f"SET {setting}Version = {version}", insert)
        spark.run(f"RESET {setting}AppId", f"RESET {setting}Version")
        assert lakeport.scan(path).version == expected
    assert tables.append(path, rows(0, 1), application=("story", 8)).version == 14


STORY = [
    "INSERT INTO {t} (id, part, n) VALUES (400, 'spark', 1), (401, NULL, 2), (402, 'p 1', 3)",
    "DELETE FROM {t} WHERE id = 400 OR id = 6",
    "UPDATE {t} SET text = 'by spark' WHERE id = 401 OR id = 8",
    "MERGE INTO {t} t USING (SELECT explode(array(7, 500)) AS id) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET n = 77 WHEN NOT MATCHED THEN INSERT (id, part) VALUES (s.id, 'p 1')",
    "OPTIMIZE {t}",
    "REORG TABLE {t} APPLY (PURGE)",
    "RESTORE TABLE {t} TO VERSION AS OF 5",
]
ON_TOP: dict[str, list[str]] = {
    "plain": STORY,
    "with_everything": STORY,
    "renamed_by_name": [
        "INSERT INTO {t} (`key column`, `town, or so`, note) VALUES (50, 'c1', 5)",
        "DELETE FROM {t} WHERE `key column` IN (10, 2)",
        "ALTER TABLE {t} RENAME COLUMN note TO remark",
        "OPTIMIZE {t}",
    ],
    "upgraded": [
        "INSERT INTO {t} (id, number) VALUES (50, 5)",
        "UPDATE {t} SET number = 9 WHERE id < 4",
        "DELETE FROM {t} WHERE id = 8",
        "OPTIMIZE {t}",
    ],
    "partition_values": [
        "UPDATE {t} SET city = 'updated' WHERE id IN (0, 9, 100)",
        "DELETE FROM {t} WHERE city = '%20'",
    ],
    "checked": [
        "INSERT INTO {t} (id, at) VALUES (9, TIMESTAMP'2026-02-02 02:02:02.5Z')",
        "UPDATE {t} SET at = NULL WHERE id = 2",
    ],
    "widened": [
        "UPDATE {t} SET id = id + 1 WHERE small < 3",
        "ALTER TABLE {t} CHANGE COLUMN price TYPE DECIMAL(20, 6)",
    ],
    "clustered": ["INSERT INTO {t} (id) VALUES (1), (2)", "OPTIMIZE {t}", "ALTER TABLE {t} CLUSTER BY (m)"],
    "cleaned_up": ["DELETE FROM {t} WHERE id = 11", "INSERT INTO {t} (id) VALUES (1), (2)"],
    "variants": ["INSERT INTO {t} VALUES (50, parse_json('{\"k\": [1, null]}'))", "DELETE FROM {t} WHERE id = 4"],
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.exhaustive(instead="a table with all features")] * (name == "plain"))
        for name in ON_TOP
    ],
)
def test_spark_writes_on_top_and_lakeport_again(spark: Peer, written: Path, tmp_path: Path, name: str) -> None:
    path = str(shutil.copytree(written / name, tmp_path / name))
    known = lakeport.scan(path).version
    spark.run(*(statement.replace("{t}", f"delta.`{path}`") for statement in ON_TOP[name]))
    by_spark = lakeport.scan(path).version
    assert by_spark > known
    write_on_top(path)
    latest = lakeport.scan(path).version
    assert latest > by_spark
    assert_spark_reads_the_same(spark, path, [by_spark, latest])
    if name in FEEDS:
        assert_spark_reads_the_same_changes(spark, path, [(by_spark, latest)])


def write_on_top(path: str) -> None:
    """A bit of everything, whatever the columns are."""
    before = lakeport.scan(path)
    column = before.schema.names[0]
    (least,) = before.select(f"`{column}`").limit(1).to_arrow().to_pylist()
    again = before.to_arrow().slice(0, 3)
    computed = [f.name for f in before.snapshot.schema if "delta.generationExpression" in f.metadata]
    tables.append(path, again.drop_columns(computed))
    tables.delete(path, lakeport.col(f"`{column}`") == least[column])
    tables.update(path, {f"`{column}`": f"`{column}` + 1000"}, f"`{column}` % 3 = 1")
    tables.append(path, again.drop_columns(computed))
    tables.optimize(path, purge=True)


@pytest.mark.parametrize("name", ["plain", "with_vectors", "with_everything", "renamed_by_name", "partition_values"])
def test_spark_would_vacuum_the_same_files(spark: Peer, written: Path, tmp_path: Path, name: str) -> None:
    path = shutil.copytree(written / name, tmp_path / name)
    (theirs,) = spark.read(f"VACUUM delta.`{path}` RETAIN 0 HOURS DRY RUN")
    found = {row["path"].removeprefix("file:") for row in theirs.to_pylist()}
    ours = tables.vacuum(str(path), retention=0, enforce_retention=False)
    assert {str(path / file) for file in ours.files} == {file for file in found if Path(file).is_file()}
