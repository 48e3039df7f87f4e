"""`lakeport convert`, `verify` and `clean`."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import deltalake
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable

from lakeport import tables
from tests.cli.conftest import Run

ORDERS = 13
"""How many rows are left."""


def ids(metadata: str) -> list[int]:
    return sorted(StaticTable.from_metadata(metadata).scan().to_arrow()["id"].to_pylist())


def test_convert_makes_a_mirror_and_keeps_it_up_to_date(lakeport: Run, orders: str) -> None:
    mirror = f"{orders}/_iceberg (Iceberg, format version 2)"
    assert lakeport("convert", orders).out == (
        f"wrote 1 snapshot of the whole table; {mirror} shows version 2 of {orders}\n"
    )
    assert lakeport("convert", orders).out == f"no new version: {mirror} shows version 2 of {orders}\n"
    tables.delete(orders, "id = 14")
    assert lakeport("convert", orders).out == f"wrote 1 snapshot of changes; {mirror} shows version 3 of {orders}\n"
    assert ids(f"{orders}/_iceberg/metadata/v2.metadata.json") == [0, 2, *range(4, 14)]


def test_convert_tells_machines_what_it_did(lakeport: Run, orders: str, tmp_path: Path) -> None:
    out = tmp_path / "a mirror"
    result = lakeport("convert", orders, "--out", out, "--format-version", 3, "--since", 0, "--json")
    [document] = result.documents
    assert (result.code, document["table"], document["kind"], document["location"]) == (0, orders, "full", str(out))
    assert (document["version"], document["versions"], document["format_version"]) == (2, [0, 1, 2], 3)
    assert len(ids(document["metadata_location"])) == ORDERS
    [again] = lakeport("convert", orders, "--out", out, "--full", "--json").documents
    assert (again["kind"], again["versions"], again["format_version"]) == ("full", [2], 3)


def test_convert_squashes_what_is_new(lakeport: Run, orders: str) -> None:
    lakeport("convert", orders)
    tables.delete(orders, "id = 14")
    tables.delete(orders, "id = 13")
    [document] = lakeport("convert", orders, "--squash", "--json").documents
    assert (document["kind"], document["versions"]) == ("incremental", [4])


def test_convert_publishes_in_a_catalog(lakeport: Run, orders: str, tmp_path: Path) -> None:
    properties = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path)}
    where = ["--table", "sales.orders"]
    for key, value in {"type": "sql", **properties}.items():
        where += ["--catalog-option", f"{key}={value}"]
    assert lakeport("convert", orders, *where).code == 0
    table = SqlCatalog("default", **properties).load_table("sales.orders")
    assert table.scan().to_arrow().num_rows == ORDERS
    assert lakeport("verify", orders, *where, "--rows").code == 0
    assert lakeport("clean", orders, *where).out == "nothing to clean\n"


def test_convert_takes_a_file_of_datasets(lakeport: Run, orders: str, tmp_path: Path) -> None:
    tables.create(str(tmp_path / "second"), {"id": [1]})
    config = tmp_path / "config.yaml"
    config.write_text(
        "sourceFormat: DELTA\ntargetFormats: [ICEBERG]\ndatasets:\n"
        f"  - {{tableBasePath: {orders}, tableName: orders, namespace: sales}}\n"
        f"  - {{tableBasePath: {tmp_path}/second}}\n"
    )
    documents = lakeport("convert", "--datasets", config, "--json").documents
    assert [document["table"] for document in documents] == [orders, f"{tmp_path}/second"]
    assert ids(documents[1]["metadata_location"]) == [1]
    catalog = ["--catalog-option", "type=sql", "--catalog-option", f"uri=sqlite:///{tmp_path}/catalog.db"]
    assert lakeport("convert", "--datasets", config, *catalog).code == 0
    listed = SqlCatalog("default", uri=f"sqlite:///{tmp_path}/catalog.db")
    assert [listed.list_tables(name) for name in ("sales", "default")] == [
        [("sales", "orders")],
        [("default", "second")],
    ]


@pytest.mark.parametrize("watch", [[], ["--watch"]], ids=["once", "watching"])
def test_a_dataset_that_fails_is_told_and_does_not_keep_the_others_from_their_turn(
    lakeport: Run, orders: str, everything: str, tmp_path: Path, watch: list[str]
) -> None:
    paths = [f"{tmp_path}/nowhere", orders, everything, f"{tmp_path}/second"]
    tables.create(paths[-1], {"id": [1]})
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps({"datasets": [{"tableBasePath": path} for path in paths]}))
    result = lakeport("convert", "--datasets", config, "--json", *watch)
    assert result.code == 1
    assert [document["table"] for document in result.documents] == paths
    assert ["error" in document for document in result.documents] == [True, False, True, False]
    assert ids(result.documents[3]["metadata_location"]) == [1]
    told = result.err.splitlines()
    assert [line.startswith(f"lakeport: {path}: ") for line, path in zip(told, paths[::2], strict=True)] == [True, True]
    assert result.documents[2]["error"] in told[1]
    assert "has the type variant" in told[1]
    again = lakeport("convert", "--datasets", config)
    assert (again.code, again.err) == (1, result.err)
    assert [line.partition(":")[0] for line in again.out.splitlines()] == ["no new version"] * 2


def test_convert_watches_a_table_until_it_is_ended(orders: str) -> None:
    command = [sys.executable, "-m", "lakeport", "convert", orders, "--watch", "--every", "0.1", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["versions"] == [2]
        tables.delete(orders, "id = 14")
        assert json.loads(process.stdout.readline())["versions"] == [3]
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (128 + signal.SIGTERM, "")
    assert err == "lakeport: interrupted: the mirror shows the last version that was mirrored completely\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "pass either TARGET or a file of tables with --datasets"),
        (["{}", "--datasets", "config.yaml"], "pass either TARGET or a file"),
        (["--datasets", "config.yaml", "--out", "x"], "drop --out and --table"),
        (["{}", "--catalog", "default"], "pass both a catalog and the name of the table in it"),
        (["{}", "--format-version", "1"], "--format-version"),
        (["{}", "--full", "--since", "0"], "pass only one of them"),
        (["{}", "--catalog-option", "uri"], "--catalog-option takes KEY=VALUE"),
    ],
    ids=["nothing", "both", "datasets elsewhere", "no name", "format 1", "full and since", "no value"],
)
def test_a_wrong_call_of_convert_is_told_with_code_2(
    lakeport: Run, orders: str, arguments: list[str], message: str
) -> None:
    result = lakeport("convert", *(argument.format(orders) for argument in arguments))
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_what_iceberg_cannot_express_is_told_with_code_1(lakeport: Run, everything: str) -> None:
    result = lakeport("convert", everything)
    assert (result.code, result.out) == (1, "")
    assert "has the type variant, which Iceberg's format version 2 does not support" in result.err
    assert not Path(everything, "_iceberg").exists()


def test_verify_says_that_a_mirror_is_equal(lakeport: Run, orders: str) -> None:
    lakeport("convert", orders, "--since", 0)
    assert lakeport("verify", orders).out == (f"the mirror matches version 2 of {orders}: 3 files, 2 deleted rows\n")
    result = lakeport("verify", orders, "--rows", "--version", 1)
    assert (result.code, result.out) == (
        0,
        f"the mirror matches version 1 of {orders}: 3 files, 0 deleted rows, all rows, confirmed by deltalake "
        f"{deltalake.__version__}\n",
    )
    [document] = lakeport("verify", orders, "--json").documents
    assert (document["is_equal"], document["differences"], document["deleted_rows"]) == (True, [], 2)


def test_verify_fails_with_code_1_and_names_what_differs(lakeport: Run, orders: str, tmp_path: Path) -> None:
    lakeport("convert", orders)
    commit = Path(orders, "_delta_log", f"{2:020}.json")
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    commit.write_text("\n".join(json.dumps(action) for action in actions if "commitInfo" in action))
    result = lakeport("verify", orders)
    assert result.code == 1
    assert "2 rows are deleted, the table has all of them" in result.out
    assert "1 difference; version 2" in result.out
    result = lakeport("verify", orders, "--json")
    assert (result.code, result.documents[0]["is_equal"], len(result.documents[0]["differences"])) == (1, False, 1)


@pytest.mark.parametrize("command", ["verify", "clean"])
def test_a_table_without_a_mirror_is_told_with_code_1(lakeport: Run, orders: str, command: str) -> None:
    result = lakeport(command, orders)
    assert (result.code, result.out) == (1, "")
    assert "there is no mirror" in result.err


def test_clean_lists_what_can_go_and_removes_it_if_told_to(lakeport: Run, orders: str) -> None:
    lakeport("convert", orders, "--since", 0)
    assert lakeport("clean", orders).out == "nothing to clean\n"
    intervals = ["--retention", "0 seconds", "--grace", "0 seconds"]
    before = set(Path(orders, "_iceberg").rglob("*"))
    result = lakeport("clean", orders, *intervals)
    assert result.code == 0
    assert "retention" in result.out
    assert "can be removed: run again with --delete" in result.out
    assert set(Path(orders, "_iceberg").rglob("*")) == before
    [document] = lakeport("clean", orders, *intervals, "--delete", "--json").documents
    assert ([expired["version"] for expired in document["expired"]], document["deleted"]) == ([0, 1], True)
    assert document["files"]
    assert not any(Path(orders, "_iceberg", path).exists() for path in document["files"])
    assert lakeport("verify", orders, "--rows").code == 0
