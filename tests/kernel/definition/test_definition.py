"""Protocol, metadata and schema of a table change together, and only into what a table can be."""

from dataclasses import replace

import msgspec
import pytest

from lakeport.errors import CorruptTableError, UnknownColumnError, UnsupportedFeatureError
from lakeport.kernel.actions import Protocol
from lakeport.kernel.definition import TableDefinition, clustering_domain, define_table, parse_clustering
from lakeport.kernel.schema import ArrayType, MapType, PrimitiveType, StructField, StructType
from lakeport.testing.builder import struct

SCHEMA = struct(id="long", day="string")


def new(schema: StructType = SCHEMA, partition_by: tuple[str, ...] = (), **properties: str) -> TableDefinition:
    return define_table("t", schema, partition_by, properties, created=1)


def existing(schema: StructType = SCHEMA, **properties: str) -> TableDefinition:
    before = new(schema, **properties)
    return replace(before, before=before)


def test_a_new_table_says_all_of_itself_and_an_existing_one_only_what_changes() -> None:
    definition = new()
    assert definition.actions == [definition.protocol, definition.metadata]
    unchanged = existing()
    assert not unchanged.is_changed
    renamed = unchanged.with_properties({"user.a": "1"})
    assert renamed.actions == [renamed.metadata]
    upgraded = unchanged.with_features("domainMetadata")
    assert upgraded.actions == [upgraded.protocol]
    both = unchanged.with_properties({"delta.enableDeletionVectors": "true"})
    assert both.actions == [both.protocol, both.metadata]


def test_properties_bring_the_features_that_they_need() -> None:
    definition = existing().with_properties({"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"})
    features = definition.protocol.writer_features or ()
    assert {"deletionVectors", "rowTracking", "domainMetadata"} <= set(features)
    assert definition.protocol.reader_features == ("deletionVectors",)


def test_properties_that_only_ask_for_a_protocol_are_not_stored() -> None:
    definition = existing().with_properties({"delta.feature.v2Checkpoint": "supported", "delta.minReaderVersion": "3"})
    assert definition.metadata.configuration == {}
    assert definition.protocol.min_reader_version == 3
    assert "v2Checkpoint" in (definition.protocol.writer_features or ())


def test_properties_are_unset() -> None:
    definition = existing(SCHEMA, **{"user.a": "1", "user.b": "2"}).with_properties({}, unset=["user.a", "user.c"])
    assert definition.metadata.configuration == {"user.b": "2"}


def test_a_property_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown table property delta\.nothing"):
        new(**{"delta.nothing": "1"})
    with pytest.raises(UnsupportedFeatureError, match="icebergCompatV2"):
        new(**{"delta.enableIcebergCompatV2": "true", "delta.columnMapping.mode": "name"})


def test_columns_are_mapped_when_the_mode_says_so() -> None:
    fresh = new(**{"delta.columnMapping.mode": "name"})
    names = [f.physical_name("name") for f in fresh.schema]
    assert all(name.startswith("col-") for name in names)
    assert fresh.metadata.configuration["delta.columnMapping.maxColumnId"] == "2"
    upgraded = existing().with_properties({"delta.columnMapping.mode": "name"})
    assert [f.physical_name("name") for f in upgraded.schema] == ["id", "day"]
    longer = upgraded.with_schema(StructType((*upgraded.schema.fields, StructField("n", PrimitiveType("long")))))
    assert longer.metadata.configuration["delta.columnMapping.maxColumnId"] == "3"
    with pytest.raises(ValueError, match="mode"):
        upgraded.with_properties({"delta.columnMapping.mode": "none"})


def test_row_tracking_gets_names_for_its_columns_once() -> None:
    first = existing().with_properties({"delta.enableRowTracking": "true"})
    again = first.with_properties({"user.a": "1"})
    names = {name: value for name, value in first.metadata.configuration.items() if "materialized" in name}
    assert len(names) == 2
    assert names.items() <= again.metadata.configuration.items()


@pytest.mark.parametrize("bad", [" ", ",", ";", "{", "}", "(", ")", "=", "\n", "\t"])
def test_names_that_parquet_does_not_take_need_a_mapping(bad: str) -> None:
    for schema in (struct(**{f"a{bad}b": "long"}), struct(at=ArrayType(struct(**{f"a{bad}b": "long"})))):
        with pytest.raises(ValueError, match=r"set delta\.columnMapping\.mode to name"):
            new(schema)
        assert new(schema, **{"delta.columnMapping.mode": "name"}).schema.names == schema.names


@pytest.mark.parametrize(
    ("schema", "partition_by", "reason"),
    [
        (StructType(()), (), "at least one column"),
        (struct(**{"": "long"}), (), "a column has no name"),
        (struct(id="long", ID="long"), (), "two columns are called 'id' and 'ID'"),
        (struct(at=struct(x="long", X="long")), (), "two columns are called 'x' and 'X'"),
        (struct(at=MapType(PrimitiveType("string"), struct(x="long", X="long"))), (), "two columns are called"),
        (struct(day="string"), ("day",), "all columns are partition columns"),
        (struct(id="long", at=struct(x="long")), ("at",), "'at' cannot be a partition column"),
        (struct(id="long", v="variant"), ("v",), "'v' cannot be a partition column"),
    ],
)
def test_what_no_table_can_be_is_refused(schema: StructType, partition_by: tuple[str, ...], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        new(schema, partition_by)


def test_partition_columns_must_be_there_and_be_named_once() -> None:
    with pytest.raises(UnknownColumnError):
        new(SCHEMA, ("nothing",))
    with pytest.raises(ValueError, match="twice"):
        new(struct(id="long", day="string", n="long"), ("day", "DAY"))


def test_the_first_version_with_in_commit_timestamps_is_recorded_unless_it_is_the_tables_first() -> None:
    on = {"delta.enableInCommitTimestamps": "true"}
    later = existing().with_properties(on).as_of(7, 1234)
    assert later.metadata.configuration["delta.inCommitTimestampEnablementVersion"] == "7"
    assert later.metadata.configuration["delta.inCommitTimestampEnablementTimestamp"] == "1234"
    first = new(**on)
    assert first.as_of(0, 1234) is first
    already = existing(SCHEMA, **on).with_properties({"user.a": "1"})
    assert already.as_of(7, 1234) is already


def test_clustering_columns_are_physical_paths() -> None:
    clustered = new(struct(at=struct(x="long")), **{"delta.columnMapping.mode": "name"}).clustered_by(["at.X"])
    at, x = clustered.schema.resolve(("at", "x"))
    assert clustered.clustering_columns == ((at.physical_name("name"), x.physical_name("name")),)
    assert {"clustering", "domainMetadata"} <= set(clustered.protocol.writer_features or ())
    domain = clustering_domain(clustered.clustering_columns)
    assert parse_clustering({domain.domain: domain.configuration}, "t") == clustered.clustering_columns
    assert parse_clustering({}, "t") == ()
    assert parse_clustering({"delta.clustering": '{"clusteringColumns":["a",["b","c"]]}'}, "t") == (("a",), ("b", "c"))
    with pytest.raises(CorruptTableError):
        parse_clustering({"delta.clustering": "nonsense"}, "t")


def test_a_replaced_table_keeps_its_id_and_its_protocol() -> None:
    before = existing(SCHEMA, **{"delta.enableDeletionVectors": "true"})
    after = define_table("t", struct(n="long"), created=5, before=before)
    assert after.metadata.id == before.metadata.id
    assert after.protocol == before.protocol
    assert after.protocol != Protocol(min_reader_version=1, min_writer_version=2)
    assert after.metadata.configuration == {}


def test_a_replaced_table_keeps_what_its_log_relies_on() -> None:
    first = existing().with_properties({"delta.enableInCommitTimestamps": "true"}).as_of(7, 1234)
    first = first.with_properties({"delta.columnMapping.mode": "name", "delta.enableRowTracking": "true"})
    again = {"delta.enableInCommitTimestamps": "true", "delta.enableRowTracking": "true"}
    after = define_table("t", struct(n="long"), (), again, created=5, before=replace(first, before=first))
    kept = {n: v for n, v in first.metadata.configuration.items() if n != "delta.columnMapping.mode"}
    assert after.metadata.configuration == kept
    assert after.as_of(9, 5678) is after
    off = define_table("t", struct(n="long"), created=5, before=replace(first, before=first))
    assert off.metadata.configuration == {"delta.columnMapping.maxColumnId": "2"}


@pytest.mark.parametrize("before", ["none", "name", "id"])
@pytest.mark.parametrize("after", ["none", "name", "id"])
def test_a_replaced_table_may_map_columns_in_another_way_but_gives_no_id_twice(before: str, after: str) -> None:
    old = existing(SCHEMA, **{"delta.columnMapping.mode": before})
    properties = {"delta.columnMapping.mode": after}
    replaced = define_table("t", old.schema, (), properties, created=5, before=old)
    fields = [*old.schema, *replaced.schema]
    ids = [f.field_id for f in fields if f.field_id is not None]
    assert len(set(ids)) == len(ids)
    assert len(ids) == 2 * (before != "none") + 2 * (after != "none")
    assert all(f.physical_name(after).startswith("col-") == (after != "none") for f in replaced.schema)


def test_ids_and_names_of_another_table_are_left_out() -> None:
    other = new(struct(id="long", at=struct(x="long")), **{"delta.columnMapping.mode": "id"}).schema
    assert new(other).schema == struct(id="long", at=struct(x="long"))
    mine = new(other, **{"delta.columnMapping.mode": "id"}).schema
    assert {f.physical_name("id") for f in mine}.isdisjoint(f.physical_name("id") for f in other)


def test_an_id_is_not_given_twice() -> None:
    mapped = existing(SCHEMA, **{"delta.columnMapping.mode": "name"})
    twice = StructType((*mapped.schema.fields, replace(mapped.schema.fields[0], name="again")))
    with pytest.raises(ValueError, match=r"'id' and 'again' have the same delta\.columnMapping\.id 1"):
        mapped.with_schema(twice)


def test_a_mode_that_the_protocol_does_not_know_counts_as_none() -> None:
    """The properties say that columns are mapped, but the files have their names."""
    before = new()
    metadata = msgspec.structs.replace(before.metadata, configuration={"delta.columnMapping.mode": "name"})
    odd = replace(before, metadata=metadata)
    after = replace(odd, before=odd).with_properties({"user.a": "1"})
    assert [f.physical_name("name") for f in after.schema] == ["id", "day"]
