"""Spark with Iceberg's own library reads mirrors as others do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.iceberg.real_tables import SPARK_FAULTS, assert_rows, compared_snapshots, convert, convertible, failing
from tests.interop.iceberg_spark import IcebergSpark, running_iceberg_spark
from tests.test_acceptance import table_of


@pytest.fixture(scope="module")
def iceberg_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergSpark]:
    with running_iceberg_spark(tmp_path_factory.mktemp("iceberg-spark")) as reader:
        yield reader


@pytest.mark.parametrize(
    ("name", "format_version"),
    [(name, number) for number in (2, 3) for name in convertible(number)] or [("", 0)],
)
def test_spark_sees_the_rows_of_every_version(
    shared_tables: Path, iceberg_spark: IcebergSpark, tmp_path: Path, name: str, format_version: int
) -> None:
    conversion = convert(name, format_version, tmp_path)
    snapshots = compared_snapshots(conversion)
    schemas = {id: table_of(name).snapshot_at_version(version).schema for version, id in snapshots.items()}
    with failing(SPARK_FAULTS[format_version].get(name)):
        for version, found in zip(snapshots, iceberg_spark.read(conversion.location, schemas), strict=True):
            assert_rows(found, name, version)
