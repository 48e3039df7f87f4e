"""Mirrors in catalogs of AWS Glue and of Hive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

import lakeport
from lakeport import iceberg, tables
from lakeport.errors import ConversionError
from tests.iceberg.changing import change_in_all_ways, numbers
from tests.iceberg.readers import PyIceberg, assert_mirrors, canonical
from tests.interop import servers
from tests.properties import VECTORS

CATALOGS = {"glue": servers.glue_catalog, "hive": servers.hive_catalog}


@pytest.fixture(scope="module", params=CATALOGS)
def catalog(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with CATALOGS[request.param](tmp_path_factory.mktemp(request.param)) as properties:
        yield properties


def rows_of(catalog: dict[str, str], name: str) -> list[str]:
    return canonical(load_catalog(**catalog).load_table(name).scan().to_arrow())


def test_a_table_of_the_catalog_follows_the_delta_table(catalog: dict[str, str], tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    place: dict[str, Any] = {"catalog": catalog, "table": "sales.orders"}
    tables.create(path, numbers(0, 100), partition_by=["g"], properties=VECTORS)
    assert iceberg.convert(path, **place).kind == "full"
    change_in_all_ways(path)
    conversion = iceberg.convert(path, **place)
    assert (conversion.kind, conversion.versions) == ("incremental", tuple(range(1, 10)))
    assert rows_of(catalog, "sales.orders") == canonical(lakeport.scan(path).to_arrow())
    assert_mirrors(PyIceberg(), path, conversion, list(range(10)))
    assert iceberg.verify(path, rows=True, **place).is_equal
    assert iceberg.convert(path, **place).kind == "none"
    assert iceberg.clean(path, retention="0 seconds", grace="0 seconds", dry_run=False, **place).expired
    assert rows_of(catalog, "sales.orders") == canonical(lakeport.scan(path).to_arrow())


def test_a_table_that_was_made_anew_is_followed(catalog: dict[str, str], tmp_path: Path) -> None:
    path, out = str(tmp_path / "table"), str(tmp_path / "mirror")
    place: dict[str, Any] = {"catalog": catalog, "table": "sales.replaced", "out": out}
    tables.create(path, numbers(0, 10))
    iceberg.convert(path, **place)
    (tmp_path / "table").rename(tmp_path / "former")
    tables.create(path, numbers(50, 60))
    assert iceberg.convert(path, **place).kind == "full"
    assert rows_of(catalog, "sales.replaced") == canonical(lakeport.scan(path).to_arrow())


def test_format_version_3_says_what_can_write_it(catalog: dict[str, str], tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    tables.create(path, numbers(0, 10))
    with pytest.raises(ConversionError, match="use version 2, a REST catalog, or a directory"):
        iceberg.convert(path, format_version=3, catalog=catalog, table="sales.third")
