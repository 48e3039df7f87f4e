"""Spark with Iceberg's own library reads mirrors as others do."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakeport
from lakeport import iceberg
from lakeport.iceberg import Conversion
from tests.acceptance.real_tables import table_of
from tests.examples import histories
from tests.iceberg.readers import PyIceberg, canonical, ids_of
from tests.iceberg.real_tables import SPARK_FAULTS, assert_rows, convert, convertible, failing
from tests.interop.iceberg_spark import IcebergSpark, running_iceberg_spark
from tests.interop.peers import Peer


@pytest.fixture(scope="module")
def iceberg_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergSpark]:
    with running_iceberg_spark(tmp_path_factory.mktemp("iceberg-spark")) as reader:
        yield reader


@pytest.mark.parametrize(
    ("name", "format_version"),
    [(name, number) for number in (2, 3) for name in convertible(number)] or [("", 0)],
)
def test_spark_sees_the_rows_of_every_version(
    iceberg_spark: IcebergSpark, tmp_path: Path, name: str, format_version: int
) -> None:
    conversion = convert(name, format_version, tmp_path)
    snapshots = ids_of(conversion)
    schemas = {id: table_of(name).snapshot_at_version(version).schema for version, id in snapshots.items()}
    with failing(SPARK_FAULTS[format_version].get(name)):
        for version, found in zip(snapshots, iceberg_spark.read(conversion.location, schemas), strict=True):
            assert_rows(found, name, version)


OPERATIONS = st.one_of(
    st.integers(0, 9).map(lambda n: f"INSERT INTO {{t}} SELECT id, id % 3, 'new'{{rest}} FROM range({n}, {n + 8})"),
    st.integers(2, 5).map(lambda k: f"DELETE FROM {{t}} WHERE id % {k} = 1"),
    st.integers(0, 2).map(lambda p: f"DELETE FROM {{t}} WHERE part = {p}"),
    st.integers(2, 5).map(lambda k: f"UPDATE {{t}} SET name = 'changed', part = part + 1 WHERE id % {k} = 0"),
    st.integers(0, 9).map(
        lambda n: (
            f"MERGE INTO {{t}} t USING (SELECT id FROM range({n}, {n + 5})) s ON t.id = s.id "
            "WHEN MATCHED AND t.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET name = 'merged' "
            "WHEN NOT MATCHED THEN INSERT (id, part, name) VALUES (s.id, 1, 'inserted')"
        )
    ),
    st.integers(0, 2).map(
        lambda p: f"INSERT INTO {{t}} REPLACE WHERE part = {p} SELECT id, {p}, 'r'{{rest}} FROM range(4)"
    ),
    st.just("OPTIMIZE {t}"),
    st.just("REORG TABLE {t} APPLY (PURGE)"),
    st.integers(0, 3).map(lambda v: f"RESTORE TABLE {{t}} TO VERSION AS OF {v}"),
    st.just("ALTER TABLE {t} ADD COLUMN {new} INT"),
    st.just("ALTER TABLE {t} ALTER COLUMN {extra} TYPE BIGINT"),
    st.just("ALTER TABLE {t} RENAME COLUMN {extra} TO {new}"),
    st.just("ALTER TABLE {t} DROP COLUMN {extra}"),
)
COLUMNS = ["id", "part", "name"]
"""Those that stay; others are added after them."""
LAYOUTS = st.sampled_from(["", "PARTITIONED BY (part)"])
MAPPINGS = st.sampled_from(["none", "name", "id"])
WIDENING = "'delta.enableTypeWidening' = 'true'"


@histories(3)
@given(
    operations=st.lists(st.tuples(OPERATIONS, st.booleans(), st.booleans()), min_size=3, max_size=5),
    layout=LAYOUTS,
    mapping=MAPPINGS,
    format_version=st.sampled_from([2, 3]),
)
def test_histories_that_deltas_own_library_writes_are_mirrored(
    spark: Peer,
    iceberg_spark: IcebergSpark,
    operations: list[tuple[str, bool, bool]],
    layout: str,
    mapping: str,
    format_version: int,
) -> None:
    """After each commit, except some; those that were left may become one snapshot."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/a table"
        properties = f"'delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = '{mapping}', {WIDENING}"
        spark.run(
            f"CREATE TABLE delta.`{path}` (id BIGINT, part INT, name STRING) USING delta {layout} "
            f"TBLPROPERTIES ({properties})",
            f"INSERT INTO delta.`{path}` SELECT id, id % 3, 'first' FROM range(20)",
            f"DELETE FROM delta.`{path}` WHERE id = 3",
        )
        conversion = iceberg.convert(path, format_version=format_version, since=0)
        for number, (operation, is_mirrored, squash) in enumerate(operations):
            spark.run(statement(operation, path, number))
            if is_mirrored:
                conversion = iceberg.convert(path, squash=squash)
        conversion = iceberg.convert(path)
        assert_all_read_the_same(spark, iceberg_spark, path, conversion)


def statement(operation: str, path: str, number: int) -> str:
    """The operation on the table as it is; if it has no column to change, or cannot change one, it gets another."""
    snapshot = lakeport.scan(path).snapshot
    extra = [name for name in snapshot.schema.names if name not in COLUMNS]
    needs_mapping = "RENAME" in operation or "DROP COLUMN" in operation
    if "{extra}" in operation and (not extra or (needs_mapping and snapshot.mapping_mode == "none")):
        operation = "ALTER TABLE {t} ADD COLUMN {new} INT"
    rest = "".join(f", id AS {name}" for name in extra)
    return operation.format(t=f"delta.`{path}`", extra=extra and extra[0], new=f"more{number}", rest=rest)


def assert_all_read_the_same(spark: Peer, iceberg_spark: IcebergSpark, path: str, conversion: Conversion) -> None:
    """Delta's library, Iceberg's, and pyiceberg, at every mirrored version."""
    ids = ids_of(conversion)
    schemas = {id: lakeport.scan(path).at(version=version).snapshot.schema for version, id in ids.items()}
    expected = spark.read(*(f"SELECT * FROM delta.`{path}` VERSION AS OF {version}" for version in ids))
    found = iceberg_spark.read(conversion.location, schemas)
    for (version, snapshot_id), delta, rows in zip(ids.items(), expected, found, strict=True):
        assert canonical(rows) == canonical(delta), f"version {version}"
        assert canonical(PyIceberg().read(conversion.metadata_location, snapshot_id)) == canonical(delta)
