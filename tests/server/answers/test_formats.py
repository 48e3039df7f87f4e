"""Which format an answer has, for every kind of client and of table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeport import tables
from lakeport.errors import SharingError
from lakeport.kernel.actions import Metadata, Protocol
from lakeport.server.answers.formats import (
    Needs,
    choose_format,
    metadata_for,
    needs_of_range,
    needs_of_snapshot,
    protocol_for,
)
from lakeport.server.answers.opened_tables import SharedSnapshot
from lakeport.server.answers.range import SharedRange
from lakeport.sharing.capabilities import parse_capabilities
from lakeport.testing.builder import TableBuilder, mapped, protocol, remove, struct
from tests.properties import MAPPED, VECTORS
from tests.server.asking import FEED, built
from tests.tables.maintained import numbers

NOTHING = Needs(frozenset(), frozenset())
ALLOWED = Needs(frozenset({"deletionVectors"}), frozenset())
USED = Needs(frozenset({"deletionVectors"}), frozenset({"deletionVectors"}))
SEVERAL = Needs(frozenset({"deletionVectors", "timestampNtz"}), frozenset({"timestampNtz"}))


def chosen(needs: Needs, header: str | None) -> str:
    return choose_format(needs, parse_capabilities(header), "sales.eu.orders")


@pytest.mark.parametrize(
    ("needs", "header", "expected"),
    [
        (NOTHING, None, "parquet"),
        (NOTHING, "responseformat=parquet", "parquet"),
        (NOTHING, "responseformat=delta", "delta"),
        (NOTHING, "responseformat=delta,parquet", "parquet"),
        (NOTHING, "responseformat=someday", "parquet"),
        (NOTHING, "responseformat=someday,delta", "delta"),
        (ALLOWED, None, "parquet"),
        (ALLOWED, "responseformat=parquet", "parquet"),
        (ALLOWED, "responseformat=delta;readerfeatures=DeletionVectors", "delta"),
        (ALLOWED, "responseformat=parquet,delta;readerfeatures=deletionvectors", "delta"),
        (ALLOWED, "responseformat=parquet,delta", "parquet"),
        (USED, "responseformat=delta;readerfeatures=deletionvectors", "delta"),
        (USED, "responseformat=parquet,delta;readerfeatures=deletionvectors", "delta"),
        (SEVERAL, "responseformat=delta;readerfeatures=timestampntz,deletionvectors", "delta"),
    ],
)
def test_the_format(needs: Needs, header: str | None, expected: str) -> None:
    assert chosen(needs, header) == expected


@pytest.mark.parametrize(
    ("needs", "header", "named"),
    [
        (ALLOWED, "responseformat=delta", ["deletionVectors"]),
        (USED, None, ["deletionVectors"]),
        (USED, "responseformat=parquet;readerfeatures=deletionvectors", ["deletionVectors"]),
        (USED, "responseformat=parquet,delta", ["deletionVectors"]),
        (SEVERAL, "responseformat=delta", ["deletionVectors", "timestampNtz"]),
        (SEVERAL, "responseformat=parquet,delta;readerfeatures=deletionvectors", ["timestampNtz"]),
        (SEVERAL, None, ["timestampNtz"]),
    ],
)
def test_what_a_client_lacks_is_named(needs: Needs, header: str | None, named: list[str]) -> None:
    with pytest.raises(SharingError) as caught:
        chosen(needs, header)
    assert (caught.value.status, caught.value.code) == (400, "UNSUPPORTED_OPERATION")
    assert "sales.eu.orders" in str(caught.value)
    assert [name for name in ("deletionVectors", "timestampNtz") if name in str(caught.value)] == named


def needs_of(path: Path) -> Needs:
    return needs_of_snapshot(SharedSnapshot(built(path).snapshot()))


def test_a_table_needs_vectors_once_it_has_them(tmp_path: Path) -> None:
    tables.create(str(tmp_path / "t"), numbers(0, 10), properties=VECTORS)
    assert needs_of(tmp_path / "t") == ALLOWED
    tables.delete(str(tmp_path / "t"), "id = 3")
    assert needs_of(tmp_path / "t") == USED


def test_column_mapping_is_needed_with_and_without_table_features(tmp_path: Path) -> None:
    tables.create(str(tmp_path / "t"), numbers(0, 3), properties=MAPPED)
    assert needs_of(tmp_path / "t").beyond_parquet == {"columnMapping"}
    table = built(tmp_path / "unmapped", protocol=protocol(features=["columnMapping"]))
    table.create(table.add({"id": [1]}))
    assert needs_of(tmp_path / "unmapped") == Needs(frozenset({"columnMapping"}), frozenset())
    table = built(tmp_path / "old", protocol=protocol(reader=2, writer=5))
    table.create(table.add({"id": [1]}))
    assert needs_of(tmp_path / "old") == NOTHING


def only_for_writers(*names: str) -> dict[str, Any]:
    features = {"readerFeatures": [], "writerFeatures": list(names)}
    return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7} | features}


def test_features_that_are_listed_for_writers_only_are_needed_too(tmp_path: Path) -> None:
    table = built(
        tmp_path / "mapped",
        schema=mapped(struct(id="long")),
        properties={"delta.columnMapping.mode": "name"},
        protocol=only_for_writers("columnMapping"),
    )
    table.create(table.add({"col-1": [1]}))
    assert needs_of(tmp_path / "mapped").beyond_parquet == {"columnMapping"}
    table = built(tmp_path / "marked", protocol=only_for_writers("deletionVectors"))
    add = table.add({"id": [1, 2]})
    table.create(add).commit(*table.delete(add, [0]))
    assert needs_of(tmp_path / "marked") == USED


def test_clients_are_told_of_features_that_are_listed_for_writers_only() -> None:
    for reader, listed in ((3, ()), (1, None)):
        given = Protocol(
            min_reader_version=reader,
            min_writer_version=7,
            reader_features=listed,
            writer_features=("appendOnly", "columnMapping"),
        )
        told = protocol_for(given, parse_capabilities("responseformat=delta"))
        assert (told["minReaderVersion"], told["readerFeatures"]) == (3, ["columnMapping"])
    legacy = Protocol(min_reader_version=2, min_writer_version=7, writer_features=("columnMapping",))
    told = protocol_for(legacy, parse_capabilities("responseformat=delta"))
    assert (told["minReaderVersion"], told.get("readerFeatures")) == (2, None)


def test_how_the_provider_keeps_its_log_does_not_matter(tmp_path: Path) -> None:
    table = built(tmp_path / "t", protocol=protocol(features=["v2Checkpoint", "vacuumProtocolCheck"]))
    table.create(table.add({"id": [1]}))
    assert needs_of(tmp_path / "t") == NOTHING


def needs_from(table: TableBuilder, start: int, *, feed: bool = False) -> Needs:
    commits = SharedRange(table.snapshot(start), table.snapshot())
    return needs_of_range(commits.all_states(), table.root, lambda: commits.has_vectors(feed))


def test_a_range_needs_vectors_where_one_of_its_files_has_them(tmp_path: Path) -> None:
    table = built(tmp_path / "t", properties=FEED)
    first = table.add({"id": [1, 2, 3]})
    table.create(first)
    assert needs_from(table, 0) == NOTHING
    table.commit(protocol(features=["deletionVectors"]))
    table.commit(table.add({"id": [4]}, stats='{"a":"\\"deletionVector\\""}'), {"commitInfo": {"deletionVector": "x"}})
    assert needs_from(table, 0) == needs_from(table, 2) == ALLOWED
    marked = table.delete(first, [0])
    table.commit(*marked)
    assert needs_from(table, 0) == needs_from(table, 3) == USED
    table.commit(table.add({"id": [5]}))
    assert needs_from(table, 4) == ALLOWED
    table.commit(remove(marked[1]))
    assert needs_from(table, 5) == USED


def test_vectors_are_seen_where_their_key_is_escaped(tmp_path: Path) -> None:
    table = built(tmp_path / "t", protocol=protocol(features=["deletionVectors"]))
    first = table.add({"id": [1, 2, 3]})
    table.create(first)
    table.commit(*table.delete(first, [0]))
    commit = tmp_path / "t" / "_delta_log" / f"{1:020d}.json"
    commit.write_text(commit.read_text().replace('"deletionVector"', '"deletionV\\u0065ctor"'))
    assert "\\u0065" in commit.read_text()
    assert needs_from(table, 0) == USED


def test_vectors_of_files_that_only_rearrange_rows_or_have_files_of_changes_do_not_matter(tmp_path: Path) -> None:
    table = built(tmp_path / "t", properties=FEED, protocol=protocol(features=["deletionVectors"]))
    first = table.add({"id": [1, 2, 3]})
    table.create(first)
    table.commit(table.cdc({"id": [1]}, ["delete"]), *table.delete(first, [0]))
    assert needs_from(table, 0, feed=True) == ALLOWED
    assert needs_from(table, 0) == USED
    rearranged = {"add": table.delete(first, [1])[1]["add"] | {"dataChange": False}}
    table.commit(rearranged)
    assert needs_from(table, 2) == ALLOWED


def test_the_protocol_is_told_without_what_concerns_the_log_alone() -> None:
    features = ("deletionVectors", "v2Checkpoint")
    given = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=features,
        writer_features=(*features, "vacuumProtocolCheck", "appendOnly"),
    )
    told = protocol_for(given, parse_capabilities("responseformat=delta;readerfeatures=deletionvectors"))
    assert told["readerFeatures"] == ["deletionVectors"]
    assert "v2Checkpoint" not in told["writerFeatures"]
    assert "appendOnly" in told["writerFeatures"]
    known = protocol_for(given, parse_capabilities("responseformat=delta;readerfeatures=v2checkpoint"))
    assert known["readerFeatures"] == list(features)
    assert protocol_for(Protocol(min_reader_version=1, min_writer_version=2), parse_capabilities(None)) == {
        "minReaderVersion": 1,
        "minWriterVersion": 2,
    }


def test_the_metadata_are_told_without_the_properties_of_such_features() -> None:
    given = Metadata(
        id="an id",
        schema_string="{}",
        partition_columns=(),
        configuration={"delta.checkpointPolicy": "v2", "delta.appendOnly": "true"},
    )
    told = metadata_for(given, parse_capabilities("responseformat=delta"))
    assert told["configuration"] == {"delta.appendOnly": "true"}
    assert told["format"] == {"provider": "parquet", "options": {}}
    known = metadata_for(given, parse_capabilities("responseformat=delta;readerfeatures=v2checkpoint"))
    assert known["configuration"] == given.configuration
