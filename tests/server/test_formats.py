"""Which format an answer has, for every kind of client and of table."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeport import tables
from lakeport.errors import SharingError
from lakeport.kernel.actions import Metadata, Protocol
from lakeport.server.formats import Needs, choose_format, metadata_for, needs_of_range, needs_of_snapshot, protocol_for
from lakeport.server.snapshots import SharedSnapshot
from lakeport.sharing.capabilities import parse_capabilities
from tests.builder import TableBuilder, protocol
from tests.server.asking import FEED, built
from tests.tables.maintained import MAPPED, VECTORS, numbers

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


def test_how_the_provider_keeps_its_log_does_not_matter(tmp_path: Path) -> None:
    table = built(tmp_path / "t", protocol=protocol(features=["v2Checkpoint", "vacuumProtocolCheck"]))
    table.create(table.add({"id": [1]}))
    assert needs_of(tmp_path / "t") == NOTHING


def states(table: TableBuilder) -> Needs:
    snapshots = [table.snapshot(version) for version in table.versions]
    return needs_of_range([(s.protocol, s.metadata) for s in snapshots], table.root)


def test_a_range_needs_what_one_of_its_versions_allows(tmp_path: Path) -> None:
    table = built(tmp_path / "t", properties=FEED)
    table.create(table.add({"id": [1]}))
    assert states(table) == NOTHING
    table.commit(protocol(features=["deletionVectors"]))
    table.commit(table.add({"id": [2]}))
    assert states(table) == USED


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
