"""Copies of shared tables: Spark, DuckDB and deltalake read them, with their changes; and they may be in a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

import lakeport
from lakeport import tables
from tests.client.syncing import Provider, providing
from tests.interop.peers import Peer
from tests.interop.rows import (
    assert_spark_reads_the_same,
    assert_spark_reads_the_same_changes,
    duckdb_query,
    read_by_deltalake,
    versions,
)
from tests.interop.servers import Bucket
from tests.interop.shareable import OWN, orders, write_orders
from tests.rows import canonical

TRACKED = {"delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true"}
KINDS = {**OWN, "tracked": OWN["advanced"] | TRACKED}


def write_more(path: str) -> None:
    """Enough versions for a checkpoint."""
    tables.append(path, orders(30, 40))
    tables.optimize(path)
    for last in range(5):
        tables.delete(path, f"id % 10 = 5 AND id < {last * 10}")
        tables.update(path, {"amount": "amount + 1"}, f"id % 7 = {last}")


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    """Tables of which each test copies what there is, and then what comes."""
    with providing(tmp_path_factory.mktemp("provider"), *KINDS) as found:
        yield found


@pytest.fixture(scope="module")
def copies(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copies")
    for name, properties in KINDS.items():
        write_orders(provider.path(name), properties)
        provider.sync(name, folder / name)
        write_more(provider.path(name))
        provider.sync(name, folder / name, verify=True)
    return folder


each_kind = pytest.mark.parametrize("name", KINDS)


@each_kind
def test_spark_reads_the_same_rows_at_every_version(spark: Peer, copies: Path, name: str) -> None:
    path = str(copies / name)
    assert len(versions(path)) > 10
    assert_spark_reads_the_same(spark, path, versions(path))


@each_kind
def test_spark_reads_the_same_changes(spark: Peer, copies: Path, name: str) -> None:
    assert_spark_reads_the_same_changes(spark, str(copies / name), [(1, len(versions(str(copies / name))) - 1)])


@each_kind
def test_spark_writes_on_top_of_a_copy(spark: Peer, provider: Provider, copies: Path, name: str) -> None:
    """The row ids that it gives are above those of the provider's rows."""
    path = str(copies / name)
    before = lakeport.scan(path).count()
    spark.run(f"INSERT INTO delta.`{path}` VALUES (1000, '2026-01-01', 0.5)")
    assert lakeport.scan(path).count() == before + 1
    if name == "tracked":
        ids = lakeport.scan(path).with_row_tracking().select("id").to_arrow()["_row_id"].to_pylist()
        assert len(set(ids)) == len(ids)
    provider.sync(name, path, full=True, verify=True)


@each_kind
def test_duckdb_and_deltalake_read_the_same_rows(duckdb: Peer, copies: Path, name: str) -> None:
    path, columns = str(copies / name), ["id", "amount"]  # DuckDB does not find partition values of mapped columns
    latest, expected = lakeport.scan(path).version, canonical(lakeport.scan(path).select(*columns).to_arrow())
    (found,) = duckdb.read(duckdb_query(path, latest))
    assert canonical(found.select(columns)) == expected
    if name == "plain":
        assert canonical(read_by_deltalake(path, latest).select(columns)) == expected


def test_a_copy_may_be_in_a_store(writable_bucket: Bucket, tmp_path: Path) -> None:
    with providing(tmp_path, "orders") as provider:
        path, dest = provider.path("orders"), f"{writable_bucket.url}/sync-{uuid4().hex}"
        write_orders(path, KINDS["tracked"])
        known = dict(writable_bucket.options)
        options = {"storage_options": known.pop("client_options") | known}
        provider.sync("orders", dest, **options)
        write_more(path)
        result = provider.sync("orders", dest, verify=True, **options)
        assert result.verified_files == len(lakeport.scan(path).files())
        assert provider.sync("orders", dest, **options).commits == 0
        assert provider.sync("orders", dest, full=True, **options).fetched_files == 0
