"""Timestamps as text, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport.errors import SharingError
from lakeport.sharing.timestamps import format_timestamp, parse_timestamp


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2022-01-01T00:00:00Z", 1_640_995_200_000),
        ("2022-01-01T00:00:00.0Z", 1_640_995_200_000),
        ("2022-01-01T00:00:00.123Z", 1_640_995_200_123),
        ("2022-01-01T00:00:00.123999999Z", 1_640_995_200_123),
        ("2022-01-01T02:00:00+02:00", 1_640_995_200_000),
        ("2021-12-31T16:00:00-0800", 1_640_995_200_000),
        ("2022-01-01T00:00z", 1_640_995_200_000),
        (" 2022-01-01t00:00:00Z ", 1_640_995_200_000),
        ("1969-12-31T23:59:59.9995Z", -1),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000),
    ],
)
def test_iso_8601_is_read(text: str, milliseconds: int) -> None:
    assert parse_timestamp(text, "timestamp") == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        *("", "yesterday", "2022-01-01", "2022-01-01T00:00:00", "2022-01-01 00:00:00Z", "1640995200000"),
        *("2022-13-01T00:00:00Z", "2022-02-30T00:00:00Z", "2022-01-01T25:00:00Z", "2022-01-01T00:00:60Z"),
        *("2022-01-01T00:00:00+25:00", "10000-01-01T00:00:00Z", "٢٠٢٢-01-01T00:00:00Z", "2022-01-01T00:00:00.Z"),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(SharingError, match="startingTimestamp is not a timestamp") as refused:
        parse_timestamp(text, "startingTimestamp")
    assert (refused.value.status, refused.value.code) == (400, "INVALID_PARAMETER_VALUE")


def test_a_whole_second_is_written_without_a_fraction() -> None:
    assert format_timestamp(1_640_995_200_000) == "2022-01-01T00:00:00Z"
    assert format_timestamp(1_640_995_200_120) == "2022-01-01T00:00:00.120Z"


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_what_is_written_is_read(milliseconds: int) -> None:
    assert parse_timestamp(format_timestamp(milliseconds), "timestamp") == milliseconds
