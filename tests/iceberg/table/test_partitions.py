"""Partition specs follow the table, and values are encoded as Iceberg's readers expect them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.schema import Schema

from lakeport.errors import ConversionError, CorruptTableError
from lakeport.iceberg.avro import decoder
from lakeport.iceberg.table.partitions import (
    Partitioning,
    check_spec_names,
    decode_value,
    encode_value,
    merge_summaries,
    plan_spec,
)
from lakeport.iceberg.table.schema import Json, iceberg_primitive
from lakeport.kernel.schema import PrimitiveType, StructField


def column(number: int, name: str) -> Json:
    return {"id": number, "name": name, "required": False, "type": "long"}


def test_a_spec_is_found_again_and_a_new_one_keeps_the_ids_of_columns() -> None:
    a, b, c = column(1, "a"), column(2, "b"), column(3, "c")
    first = plan_spec([a], [], 999)
    second = plan_spec([b, a], [first], 1000)
    assert plan_spec([a | {"name": "renamed"}], [first, second], 1001) is first
    assert plan_spec([], [first, second], 1001) == {"spec-id": 2, "fields": []}
    assert [(f["source-id"], f["field-id"], f["name"]) for f in second["fields"]] == [(2, 1001, "b"), (1, 1000, "a")]
    assert plan_spec([c], [first, second], 1001)["fields"][0]["field-id"] == 1002


def test_a_partition_field_with_the_name_of_another_column_is_refused() -> None:
    spec = plan_spec([column(1, "a")], [], 999)
    check_spec_names(spec, [column(1, "renamed")])
    with pytest.raises(ConversionError, match="'a'") as caught:
        check_spec_names(spec, [column(1, "renamed"), column(2, "a")])
    assert caught.value.reason == "partition name taken"


def partitioning(delta_type: str, name: str = "p") -> Partitioning:
    field = StructField(name, PrimitiveType(delta_type))
    kind = iceberg_primitive(PrimitiveType(delta_type))
    assert kind is not None
    spec = plan_spec([{"id": 1, "name": name, "required": False, "type": kind}], [], 999)
    return Partitioning(spec, (field,), (name,), (kind,))


VALUES: list[tuple[str, str, Any]] = [
    ("long", "-5", -5),
    ("byte", "7", 7),
    ("boolean", "true", True),
    ("string", "ü", "ü"),
    ("binary", "ab", b"ab"),
    ("date", "1969-12-31", -1),
    ("timestamp", "1969-12-31T23:59:59.999999Z", -1),
    ("timestamp_ntz", "1970-01-01 00:00:01", 1_000_000),
    ("double", "1.5", 1.5),
    ("float", "-1.5", -1.5),
    ("decimal(5,2)", "-1.25", -125),
    ("decimal(38,3)", "12345678901234567890123456789012345.678", 12345678901234567890123456789012345678),
]


@pytest.mark.parametrize(("delta", "text", "plain"), VALUES, ids=[value[0] for value in VALUES])
def test_values_are_parsed_and_encoded_by_their_types(delta: str, text: str, plain: Any) -> None:
    parts = partitioning(delta)
    assert parts.parse({"p": text}, "t") == (plain,)
    schema = {"type": "record", "name": "r102", "fields": parts.avro_fields}
    record, _ = decoder(schema)(memoryview(parts.encode((plain,))), 0)
    found = record["p"]
    assert (int.from_bytes(found, "big", signed=True) if delta.startswith("decimal") else found) == plain
    kind = parts.types[0]
    assert decode_value(encode_value(plain, kind), kind) == plain


@pytest.mark.parametrize("texts", [{}, {"p": None}, {"p": ""}], ids=["absent", "null", "empty"])
def test_a_value_that_is_absent_or_empty_is_null(texts: dict[str, str | None]) -> None:
    parts = partitioning("string")
    assert parts.parse(texts, "t") == (None,)
    assert parts.encode((None,)) == b"\x00"


def test_a_value_that_makes_no_sense_is_corruption() -> None:
    with pytest.raises(CorruptTableError, match="'x' is not a long"):
        partitioning("long").parse({"p": "x"}, "table")


def test_names_that_avro_does_not_allow_are_written_as_iceberg_does() -> None:
    (field,) = partitioning("long", "9 ä.b").avro_fields
    assert (field["name"], field["iceberg-field-name"]) == ("_9_x20_xE4_x2Eb", "9 ä.b")
    (plain,) = partitioning("long", "day_1").avro_fields
    assert (plain["name"], "iceberg-field-name" in plain) == ("day_1", False)


def bounds(summary: Json, kind: str) -> tuple[str, str]:
    """As text, in which -0.0 is not 0.0."""
    return repr(decode_value(summary["lower_bound"], kind)), repr(decode_value(summary["upper_bound"], kind))


def test_summaries_tell_the_least_and_the_greatest() -> None:
    parts = partitioning("double")
    (summary,) = parts.summarise([(1.5,), (None,), (-2.0,)])
    assert (summary["contains_null"], summary["contains_nan"]) == (True, False)
    assert bounds(summary, "double") == ("-2.0", "1.5")
    (only_null,) = parts.summarise([(None,)])
    assert (only_null["lower_bound"], only_null["contains_nan"]) == (None, False)


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("texts", [["0.0"], ["-0.0"], ["0.0", "-0.0"], ["-0.0", "0.0"]])
def test_zeros_lie_between_both_zeros(kind: str, texts: list[str]) -> None:
    """Iceberg's order has -0.0 before 0.0, while filters of SQL take them for the same."""
    parts = partitioning(kind)
    values = [parts.parse({"p": text}, "t") for text in texts]
    assert [repr(value) for (value,) in values] == ["0.0"] * len(texts)
    (summary,) = parts.summarise(values)
    assert bounds(summary, kind) == ("-0.0", "0.0")
    for other in (1.0, -1.0):
        (more,) = merge_summaries([[summary], parts.summarise([(other,)])], [kind])
        assert bounds(more, kind) == (("-0.0", "1.0") if other > 0 else ("-1.0", "0.0"))


def test_summaries_from_before_zeros_were_widened_are_widened_when_they_are_merged() -> None:
    zeros = [encode_value(value, "double") for value in (0.0, -0.0)]
    former = [{"contains_null": False, "contains_nan": False, "lower_bound": z, "upper_bound": z} for z in zeros]
    for summaries in ([[former[0]]], [[former[1]]], [[f] for f in former]):
        (merged,) = merge_summaries(summaries, ["double"])
        assert bounds(merged, "double") == ("-0.0", "0.0")


def test_nan_lies_at_the_upper_end() -> None:
    """Spark and DuckDB take it for greater than all else, Iceberg's filters of manifests go by the bounds alone."""
    parts = partitioning("double")
    (summary,) = parts.summarise([(1.5,), (float("nan"),), (-2.0,)])
    assert summary["contains_nan"]
    assert bounds(summary, "double") == ("-2.0", "inf")
    (only_nan,) = parts.summarise([(float("nan"),)])
    assert bounds(only_nan, "double") == ("inf", "inf")
    (merged,) = merge_summaries([[only_nan], parts.summarise([(-3.0,)])], ["double"])
    assert bounds(merged, "double") == ("-3.0", "inf")


def test_text_is_ordered_by_its_bytes() -> None:
    (summary,) = partitioning("string").summarise([("\U00010000",), ("\uffff",)])
    assert summary["upper_bound"] == "\U00010000".encode()


def test_merged_summaries_hold_for_all() -> None:
    parts = partitioning("long")
    whole = merge_summaries(
        [parts.summarise([(5,), (-7,)]), parts.summarise([(None,)]), parts.summarise([(6,)])], ["long"]
    )
    assert whole == parts.summarise([(5,), (-7,), (None,), (6,)])


@given(st.integers(1 - 10**38, 10**38 - 1))
def test_decimals_take_as_few_bytes_as_iceberg_says(number: int) -> None:
    kind = (
        Schema.model_validate(
            {"type": "struct", "fields": [{"id": 1, "name": "d", "required": False, "type": "decimal(38, 0)"}]}
        )
        .fields[0]
        .field_type
    )
    assert encode_value(number, "decimal(38, 0)") == to_bytes(kind, Decimal(number))


def test_bounds_from_before_a_promotion_are_understood() -> None:
    assert decode_value(encode_value(-3, "int"), "long") == -3
    assert decode_value(encode_value(1.5, "float"), "double") == 1.5


MOMENTS: list[tuple[str, Any, Any]] = [
    ("date", -1, date(1969, 12, 31)),
    ("timestamptz", -1, datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)),
    ("string", "ü", "ü"),
]


@pytest.mark.parametrize(("kind", "plain", "value"), MOMENTS, ids=[moment[0] for moment in MOMENTS])
def test_another_library_reads_the_values(kind: str, plain: Any, value: Any) -> None:
    fields = [{"id": 1, "name": "d", "required": False, "type": kind}]
    found = from_bytes(
        Schema.model_validate({"type": "struct", "fields": fields}).fields[0].field_type, encode_value(plain, kind)
    )
    expected = {date: plain, datetime: plain}.get(type(value), value)
    assert found == expected
