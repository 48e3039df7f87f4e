"""Tables ordered by Lakeport beside those ordered by Delta's own library: what filters read, and who continues."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import lakeport
from bench.lineitem import line_table
from lakeport import tables
from lakeport.kernel.snapshot import Table
from tests.interop.peers import Peer
from tests.rows import rows_of

pytestmark = pytest.mark.exhaustive(instead="the tests of kernel/clustering and tables/clustering")

FILE_SIZE = 1 << 20
COLUMNS = ["l_shipdate", "l_partkey"]
FILTERS = [
    f"l_shipdate BETWEEN DATE '{year}-03-01' AND DATE '{year}-04-01' AND l_partkey BETWEEN {part} AND {part + 5000}"
    for year in range(1992, 1999)
    for part in range(0, 195_000, 15_000)
]


@pytest.fixture(scope="module")
def ordered(spark: Peer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The same rows of lineitem in the order of either."""
    folder = tmp_path_factory.mktemp("ordered")
    theirs = line_table(folder, 400_000, 4)
    ours = folder / "ours"
    shutil.copytree(theirs, ours)
    spark.run(
        f"SET spark.databricks.delta.optimize.maxFileSize = {FILE_SIZE}",
        f"OPTIMIZE delta.`{theirs}` ZORDER BY ({', '.join(COLUMNS)})",
        "RESET spark.databricks.delta.optimize.maxFileSize",
    )
    return {"theirs": str(theirs), "ours": str(ours)}


def files_read(target: str) -> float:
    frame = lakeport.scan(target)
    return sum(len(frame.where(text).files()) for text in FILTERS) / len(FILTERS)


@pytest.mark.parametrize("order", ["zorder_by", "cluster_by"])
def test_a_filter_on_two_columns_reads_no_more_files_than_after_deltas_own_z_order(
    ordered: dict[str, str], tmp_path: Path, order: str
) -> None:
    ours = str(tmp_path / "ours")
    shutil.copytree(ordered["ours"], ours)
    count = len(lakeport.scan(ordered["theirs"]).files())
    size = sum(file.size for file in lakeport.scan(ours).files()) // count
    tables.optimize(ours, target_size=size, **{order: COLUMNS})  # type: ignore[arg-type]
    assert len(lakeport.scan(ours).files()) <= count
    assert files_read(ours) <= files_read(ordered["theirs"]) < count / 2


def entries(target: str) -> list[Any]:
    snapshot = Table.for_path(lakeport.scan(target).snapshot.engine, target).latest_snapshot()
    return list(snapshot.scan_builder().with_log_details().build().files())


def test_deltas_own_library_reads_and_optimizes_a_table_clustered_by_us(spark: Peer, tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    rows = [{"a": n * 37 % 1000, "b": f"b{n * 17 % 100}", "odd name": n} for n in range(3000)]
    mapped = {"delta.columnMapping.mode": "name"}
    tables.create(target, rows, cluster_by=["a", "odd name"], properties=mapped)
    tables.append(target, rows)
    tables.optimize(target, target_size=10_000)
    before = {file.path for file in entries(target)}
    (found,) = spark.read(f"SELECT * FROM delta.`{target}` WHERE a < 500 AND `odd name` >= 10")
    assert found.num_rows == lakeport.scan(target).where("a < 500 AND `odd name` >= 10").count()
    spark.run(f"OPTIMIZE delta.`{target}`")
    assert {file.path for file in entries(target)} == before  # one cube in the order that it wants
    tables.append(target, rows[:10])
    spark.run(f"OPTIMIZE delta.`{target}`")
    assert lakeport.scan(target).count() == 6010
    assert before.isdisjoint(file.path for file in entries(target))
    assert tables.optimize(target).metrics["numRemovedFiles"] == 0  # nor do we touch theirs


def test_the_history_is_that_of_deltas_own_library(spark: Peer, tmp_path: Path) -> None:
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    table = f"delta.`{theirs}`"
    spark.run(f"CREATE TABLE {table} (a INT, b STRING) USING delta CLUSTER BY (a)")
    tables.create(ours, schema="a int, b string", cluster_by=["a"])
    spark.run(f"INSERT INTO {table} VALUES (1, 'x')", f"ALTER TABLE {table} CLUSTER BY (b, a)", f"OPTIMIZE {table}")
    tables.append(ours, [{"a": 1, "b": "x"}])
    tables.cluster_by(ours, ["b", "a"])
    tables.optimize(ours)
    spark.run(f"OPTIMIZE {table} FULL", f"ALTER TABLE {table} CLUSTER BY NONE")
    tables.cluster_by(ours, None)
    found = [
        [(commit.operation, parameters(commit)) for commit in tables.history(target) if commit.operation != "WRITE"]
        for target in (ours, theirs)
    ]
    assert [entry for entry in found[0] if entry[0] != "CREATE TABLE"] == [
        entry for entry in found[1] if entry[0] != "CREATE TABLE"
    ]
    assert [{*(file.tags or {})} for file in entries(ours)] == [{*(file.tags or {})} for file in entries(theirs)]
    assert [file.clustering_provider for file in entries(ours)] == [f.clustering_provider for f in entries(theirs)]
    domains = [lakeport.scan(target).snapshot.domain_metadata["delta.clustering"] for target in (ours, theirs)]
    assert domains[0] == domains[1]
    assert rows_of(ours) == rows_of(theirs)


def parameters(commit: Any) -> dict[str, Any]:
    return {name: str(value).lower() for name, value in commit.info["operationParameters"].items()}
