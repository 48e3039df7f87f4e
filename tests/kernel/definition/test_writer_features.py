"""Which tables may be written, and which protocol a table needs."""

from __future__ import annotations

from typing import Any

import pytest

from lakeport.errors import UnsupportedFeatureError
from lakeport.kernel.actions import Metadata, Protocol
from lakeport.kernel.definition import check_writable, protocol_for, supported_features
from lakeport.kernel.definition.features import WRITER_FEATURES
from lakeport.kernel.schema import ArrayType, MapType, PrimitiveType, StructField, StructType, format_schema
from lakeport.testing.builder import struct

SCHEMA = struct(id="long")


def versions(reader: int, writer: int) -> Protocol:
    return Protocol(min_reader_version=reader, min_writer_version=writer)


def listed(reader: int, writer_features: list[str], reader_features: list[str] | None = None) -> Protocol:
    return Protocol(
        min_reader_version=reader,
        min_writer_version=7,
        reader_features=None if reader_features is None else tuple(reader_features),
        writer_features=tuple(writer_features),
    )


def metadata(configuration: dict[str, str] | None = None, schema: StructType = SCHEMA) -> Metadata:
    return Metadata(schema_string=format_schema(schema), configuration={**(configuration or {})})


def needed(
    before: Protocol | None = None,
    configuration: dict[str, str] | None = None,
    schema: StructType = SCHEMA,
    extra: tuple[str, ...] = (),
) -> Protocol:
    return protocol_for(before, metadata(configuration, schema), schema, extra)


def column(**keys: Any) -> StructField:
    return StructField("id", PrimitiveType("long"), metadata={key.replace("__", "."): v for key, v in keys.items()})


# What may be written


@pytest.mark.parametrize("writer", range(1, 7))
def test_every_version_before_table_features_is_written(writer: int) -> None:
    check_writable(versions(2 if writer > 4 else 1, writer), metadata(), SCHEMA, "/t")


def test_every_supported_feature_is_written() -> None:
    check_writable(listed(3, sorted(WRITER_FEATURES), []), metadata(), SCHEMA, "/t")


def test_all_unsupported_writer_features_are_named() -> None:
    with pytest.raises(
        UnsupportedFeatureError, match=r"features aCar, flyingCars, .*can still be read \[/t\]"
    ) as caught:
        check_writable(listed(1, ["flyingCars", "appendOnly", "aCar"]), metadata(), SCHEMA, "/t")
    assert caught.value.features == ("aCar", "flyingCars")


def test_a_writer_version_from_the_future_is_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="writer version 8"):
        check_writable(versions(1, 8), metadata(), SCHEMA, "/t")


@pytest.mark.parametrize("feature", ["catalogManaged", "catalogOwned-preview"])
def test_a_catalog_managed_table_is_written_by_its_catalog(feature: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match="catalog") as caught:
        check_writable(listed(3, [feature], [feature]), metadata(), SCHEMA, "/t")
    assert caught.value.features == (feature,)


@pytest.mark.parametrize("nested", [False, True])
def test_identity_columns_are_refused_when_a_column_is_one(nested: bool) -> None:
    schema = struct(column(delta__identity__start=1))
    schema = struct(l=ArrayType(schema)) if nested else schema
    with pytest.raises(UnsupportedFeatureError, match="identityColumns"):
        check_writable(versions(2, 6), metadata(schema=schema), schema, "/t")


@pytest.mark.parametrize("version", ["V1", "V2"])
def test_iceberg_compatibility_is_refused_when_it_is_on(version: str) -> None:
    protocol = listed(2, ["columnMapping", f"icebergCompat{version}"])
    check_writable(protocol, metadata({f"delta.enableIcebergCompat{version}": "false"}), SCHEMA, "/t")
    with pytest.raises(UnsupportedFeatureError, match=f"icebergCompat{version}"):
        check_writable(protocol, metadata({f"delta.enableIcebergCompat{version}": "true"}), SCHEMA, "/t")


# What versions mean


@pytest.mark.parametrize(
    ("protocol", "features"),
    [
        (versions(1, 1), []),
        (versions(1, 2), ["appendOnly", "invariants"]),
        (versions(1, 3), ["appendOnly", "checkConstraints", "invariants"]),
        (versions(1, 4), ["appendOnly", "changeDataFeed", "checkConstraints", "generatedColumns", "invariants"]),
        (listed(2, ["columnMapping"]), ["columnMapping"]),
        (listed(3, ["deletionVectors", "rowTracking"], ["deletionVectors"]), ["deletionVectors", "rowTracking"]),
    ],
)
def test_versions_mean_features(protocol: Protocol, features: list[str]) -> None:
    assert sorted(supported_features(protocol)) == features


def test_column_mapping_needs_the_reader_version_too() -> None:
    assert "columnMapping" in supported_features(versions(2, 5))
    assert "columnMapping" not in supported_features(versions(1, 5))
    assert "identityColumns" in supported_features(versions(2, 6))


# What a table needs


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ({}, versions(1, 2)),
        ({"delta.appendOnly": "true"}, versions(1, 2)),
        ({"delta.constraints.c": "id > 0"}, versions(1, 3)),
        ({"delta.enableChangeDataFeed": "true"}, versions(1, 4)),
        ({"delta.enableChangeDataFeed": "false"}, versions(1, 2)),
        ({"delta.columnMapping.mode": "name"}, versions(2, 5)),
        ({"delta.columnMapping.mode": "id", "delta.constraints.c": "id > 0"}, versions(2, 5)),
        ({"delta.columnMapping.mode": "none"}, versions(1, 2)),
        ({"delta.minReaderVersion": "2", "delta.minWriterVersion": "5"}, versions(2, 5)),
        (
            {"delta.enableDeletionVectors": "true"},
            listed(3, ["appendOnly", "invariants", "deletionVectors"], ["deletionVectors"]),
        ),
        (
            {"delta.enableRowTracking": "true"},
            listed(1, ["appendOnly", "invariants", "domainMetadata", "rowTracking"]),
        ),
        (
            {"delta.enableRowTracking": "true", "delta.columnMapping.mode": "name"},
            listed(2, ["appendOnly", "invariants", "columnMapping", "domainMetadata", "rowTracking"]),
        ),
        ({"delta.enableInCommitTimestamps": "true"}, listed(1, ["appendOnly", "invariants", "inCommitTimestamp"])),
        (
            {"delta.checkpointPolicy": "v2", "delta.columnMapping.mode": "id"},
            listed(3, ["appendOnly", "invariants", "columnMapping", "v2Checkpoint"], ["columnMapping", "v2Checkpoint"]),
        ),
        (
            {"delta.enableTypeWidening": "true"},
            listed(3, ["appendOnly", "invariants", "typeWidening"], ["typeWidening"]),
        ),
        (
            {"delta.enableVariantShredding": "true"},
            listed(
                3,
                ["appendOnly", "invariants", "variantShredding", "variantType"],
                ["variantShredding", "variantType"],
            ),
        ),
        (
            {"delta.feature.vacuumprotocolcheck": "supported"},
            listed(3, ["appendOnly", "invariants", "vacuumProtocolCheck"], ["vacuumProtocolCheck"]),
        ),
        ({"delta.feature.changeDataFeed": "supported"}, versions(1, 4)),
        ({"delta.minWriterVersion": "7"}, listed(1, ["appendOnly", "invariants"])),
        ({"delta.minReaderVersion": "3"}, listed(3, ["appendOnly", "invariants"], [])),
    ],
)
def test_properties_of_a_new_table_ask_for_its_protocol(configuration: dict[str, str], expected: Protocol) -> None:
    assert needed(None, configuration) == expected


@pytest.mark.parametrize(
    ("schema", "feature", "for_readers"),
    [
        (struct(at="timestamp_ntz"), "timestampNtz", True),
        (struct(l=ArrayType(ArrayType(PrimitiveType("timestamp_ntz")))), "timestampNtz", True),
        (struct(m=MapType(PrimitiveType("string"), struct(v="variant"))), "variantType", True),
        (struct(column(CURRENT_DEFAULT="5")), "allowColumnDefaults", False),
        (struct(column(delta__typeChanges=[{"fromType": "integer", "toType": "long"}])), "typeWidening", True),
    ],
)
def test_columns_ask_for_features(schema: StructType, feature: str, for_readers: bool) -> None:
    features = ["appendOnly", "invariants", feature]
    expected = listed(3, features, [feature]) if for_readers else listed(1, features)
    assert needed(schema=schema) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (struct(column(delta__generationExpression="1")), versions(1, 4)),
        (struct(column(delta__invariants='{"expression":{"expression":"id > 3"}}')), versions(1, 2)),
    ],
)
def test_columns_ask_for_versions(schema: StructType, expected: Protocol) -> None:
    assert needed(schema=schema) == expected


def test_clustering_comes_with_domain_metadata() -> None:
    assert needed(extra=("clustering",)) == listed(1, ["appendOnly", "invariants", "clustering", "domainMetadata"])


def test_an_upgrade_keeps_what_the_old_versions_mean() -> None:
    upgraded = needed(versions(2, 6), {"delta.enableDeletionVectors": "true"})
    assert upgraded.reader_features == ("columnMapping", "deletionVectors")
    assert set(upgraded.writer_features or ()) == {*supported_features(versions(2, 6)), "deletionVectors"}


def test_an_upgrade_appends_to_the_lists_and_keeps_what_is_not_known() -> None:
    before = listed(3, ["flyingCars", "deletionVectors"], ["deletionVectors"])
    after = needed(before, {"delta.enableChangeDataFeed": "true", "delta.checkpointPolicy": "v2"})
    assert after == listed(
        3, ["flyingCars", "deletionVectors", "changeDataFeed", "v2Checkpoint"], ["deletionVectors", "v2Checkpoint"]
    )


@pytest.mark.parametrize(
    "before",
    [
        versions(1, 1),
        versions(2, 6),
        versions(2, 3),
        listed(1, ["appendOnly"]),
        listed(1, ["columnMapping"]),
        listed(3, ["columnMapping", "deletionVectors"], ["deletionVectors", "columnMapping"]),
        listed(3, ["appendOnly"], []),
    ],
)
def test_a_protocol_is_never_lowered_nor_changed_without_need(before: Protocol) -> None:
    assert needed(before, {"delta.minReaderVersion": "1", "delta.minWriterVersion": "1"}) == before


def test_a_feature_of_an_old_table_is_listed_once_it_has_lists() -> None:
    before = listed(1, ["appendOnly"])
    assert needed(before, {"delta.constraints.c": "id > 0"}) == listed(1, ["appendOnly", "checkConstraints"])


def test_a_preview_counts_as_its_feature() -> None:
    before = listed(3, ["typeWidening-preview", "variantType-preview"], ["typeWidening-preview", "variantType-preview"])
    assert needed(before, {"delta.enableTypeWidening": "true"}, struct(v="variant")) == before


@pytest.mark.parametrize(
    ("configuration", "extra", "names"),
    [
        ({"delta.feature.flyingCars": "supported", "delta.feature.aCar": "supported"}, (), ("aCar", "flyingCars")),
        ({"delta.feature.catalogManaged": "supported"}, (), ("catalogManaged",)),
        ({"delta.enableIcebergCompatV2": "true"}, (), ("icebergCompatV2",)),
        ({}, ("liquid",), ("liquid",)),
    ],
)
def test_features_that_are_not_written_are_refused_by_name(
    configuration: dict[str, str], extra: tuple[str, ...], names: tuple[str, ...]
) -> None:
    with pytest.raises(UnsupportedFeatureError, match=", ".join(names)) as caught:
        needed(None, configuration, extra=extra)
    assert caught.value.features == names


def test_a_new_identity_column_is_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="identityColumns"):
        needed(schema=struct(column(delta__identity__start=1)))
