"""`lakeport schema`, `lakeport files` and `lakeport history`."""

import os
from pathlib import Path

from lakeport.engine import default_engine
from lakeport.testing.builder import TableBuilder, mapped, protocol, struct
from tests.cli.conftest import Run


def test_schema_shows_columns_version_and_properties(lakeport: Run, orders: str) -> None:
    lines = [line.split() for line in lakeport("schema", orders).out.splitlines()]
    assert lines[2:5] == [["id", "long", "not", "null"], ["amount", "decimal(10,2)"], ["day", "date", "partition"]]
    assert lines[6][:4] == [orders, "at", "version", "2,"]
    assert lines[7] == ["a.b", "=", "c"]


def test_schema_spells_nested_types(lakeport: Run, everything: str) -> None:
    out = lakeport("schema", everything).out
    assert "array<struct<when: timestamp, v: variant>>" in out
    assert "map<date, variant>" in out


def test_schema_for_machines_is_one_document(lakeport: Run, orders: str) -> None:
    [document] = lakeport("schema", orders, "--version", 1, "--json").documents
    assert list(document) == [
        *["table", "version", "timestamp", "columns", "partitionColumns", "properties", "protocol"]
    ]
    assert (document["table"], document["version"]) == (orders, 1)
    assert document["columns"][0] == {
        **{"name": "id", "type": "long", "nullable": False, "metadata": {}, "partition": False}
    }
    assert [column["partition"] for column in document["columns"]] == [False, False, True]
    assert document["protocol"]["readerFeatures"] == ["deletionVectors"]


def test_files_tell_path_size_rows_partition_and_deletions(lakeport: Run, orders: str) -> None:
    lines = lakeport("files", orders).out.splitlines()[2:]
    assert len(lines) == 3
    [first] = [line for line in lines if "2026-01-01" in line]
    size, rows, partition, deleted, _, path = first.split()
    assert size == str(os.path.getsize(Path(orders) / path))
    assert (rows, partition, deleted) == ("3", "day=2026-01-01", "2")
    assert any("day=null" in line for line in lines)


def test_files_with_a_filter_are_those_that_have_to_be_read(lakeport: Run, orders: str) -> None:
    [document] = lakeport("files", orders, "--where", "day = '2026-01-01'", "--json").documents
    assert list(document) == ["path", "size", "rows", "modificationTime", "partitionValues", "deletionVector"]
    assert document["partitionValues"] == {"day": "2026-01-01"}
    assert document["deletionVector"]["cardinality"] == 2
    assert Path(document["path"]).is_file()
    assert len(lakeport("files", orders, "--limit", 2, "--json").documents) == 2


def test_partition_values_have_the_names_that_people_know(lakeport: Run, tmp_path: Path) -> None:
    schema = mapped(struct(id="long", city="string"))
    mapping = {"delta.columnMapping.mode": "name"}
    table = TableBuilder(default_engine(), str(tmp_path), schema, ["city"], mapping, protocol(2, 5))
    table.create(table.add({"col-1": [1]}, {"col-2": "Oslo"}))
    [document] = lakeport("files", tmp_path, "--json").documents
    assert document["partitionValues"] == {"city": "Oslo"}


def test_history_is_newest_first(lakeport: Run, orders: str) -> None:
    lines = lakeport("history", orders).out.splitlines()[2:]
    assert [(line.split()[0], line.split()[2]) for line in lines] == [("2", "DELETE"), ("1", "WRITE"), ("0", "CREATE")]
    assert "mode=Append" in lines[1]


def test_history_for_machines_has_stable_keys(lakeport: Run, orders: str) -> None:
    documents = lakeport("history", orders, "--limit", 2, "--json").documents
    assert [document["version"] for document in documents] == [2, 1]
    assert list(documents[0]) == [
        *["version", "timestamp", "operation", "operationParameters", "operationMetrics", "engineInfo", "userName"]
    ]
    assert documents[0]["operationParameters"] == {"predicate": '["id IN (1, 3)"]'}
    assert documents[0]["timestamp"].endswith("Z")


def test_history_of_an_earlier_version_ends_there(lakeport: Run, orders: str) -> None:
    documents = lakeport("history", orders, "--version", 1, "--json").documents
    assert [document["version"] for document in documents] == [1, 0]
