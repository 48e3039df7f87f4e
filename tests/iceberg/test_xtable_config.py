"""XTable's configuration of datasets."""

from __future__ import annotations

import pytest

from lakeport.iceberg.xtable_config import Dataset, parse_datasets

CONFIG = """
sourceFormat: DELTA
targetFormats:
  - ICEBERG
datasets:
  - tableBasePath: s3://bucket/sales/orders/
    tableDataPath: s3://bucket/sales/orders
    tableName: all_orders
    namespace: sales.eu
  - tableBasePath: /data/items
    partitionSpec: day:VALUE
"""


def test_datasets_are_read_as_xtable_does() -> None:
    first, second = parse_datasets(CONFIG)
    assert first == Dataset("s3://bucket/sales/orders", "all_orders", "sales.eu")
    assert (first.identifier, second.identifier) == ("sales.eu.all_orders", "default.items")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sourceFormat: HUDI\ndatasets: []", "HUDI"),
        ("sourceFormat: DELTA\ntargetFormats: [ICEBERG, HUDI]\ndatasets: []", "has HUDI"),
        ("datasets:\n  - tableName: a", "tableBasePath"),
        ("datasets: [", "not a configuration"),
        ("dataset: []", "not a configuration"),
        ("", "not a configuration"),
    ],
)
def test_what_lakeport_does_not_convert_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_datasets(text)
