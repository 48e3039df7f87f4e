"""Files in Java's old calendar: dates and timestamps are those that Spark wrote, and filters find them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakeport
from lakeport.engine import default_engine
from lakeport.errors import ConversionError, UnsupportedFeatureError
from lakeport.frame import Frame
from lakeport.iceberg import convert, verify
from lakeport.kernel.schema import schema_from_arrow
from lakeport.testing.builder import TableBuilder, protocol, struct

DAY = 86_400_000_000
OLD = {"legacyDateTime": "", "legacyINT96": "", "version": "4.2.0", "timeZone": "UTC"}
SHOWN = {
    "-0044-03-15": -735527,
    "0001-01-01": -719164,
    "1000-01-01": -354280,
    "1582-10-04": -141428,
    "1582-10-15": -141427,
    "2026-01-01": 20454,
}
"""What Spark shows, and the days that it stores."""


def scan_of(path: Path, columns: dict[str, pa.Array], metadata: dict[str, str], **parquet: Any) -> Frame:
    kinds: dict[str, Any] = {"day": "date", "at": "timestamp", "local": "timestamp_ntz", "text": "string"}
    schema = struct(**{name: kinds[name] for name in columns if name in kinds})
    table = TableBuilder(default_engine(), str(path / "t"), schema, protocol=protocol(features=["timestampNtz"]))
    rows = pa.table(columns).replace_schema_metadata({f"org.apache.spark.{k}": v for k, v in metadata.items()})
    table.create(table.add(rows, stats=None, row_group_size=1, parquet=parquet))
    return lakeport.scan(table.root)


def days(values: list[int | None]) -> pa.Array:
    return pa.array(values, pa.int32()).cast(pa.date32())


def moments(values: list[int | None], zone: str | None = "UTC") -> pa.Array:
    return pa.array([None if day is None else day * DAY + 1 for day in values]).cast(pa.timestamp("us", zone))


def texts(frame: Frame, column: str) -> list[str | None]:
    cast = frame.to_arrow()[column].cast(pa.timestamp("us") if column != "day" else pa.date32()).cast(pa.string())
    return [None if text is None else text.removesuffix(" 00:00:00.000001") for text in cast.to_pylist()]


STORED = [*SHOWN.values(), None]


@pytest.mark.parametrize("metadata", [OLD, {"version": "2.4.5"}], ids=["told", "Spark 2"])
@pytest.mark.parametrize("int96", [True, False], ids=["INT96", "INT64"])
def test_dates_and_timestamps_are_those_that_spark_shows(tmp_path: Path, metadata: dict[str, str], int96: bool) -> None:
    columns = {"day": days(STORED), "at": moments(STORED, None if int96 else "UTC")}
    frame = scan_of(tmp_path, columns, metadata, use_deprecated_int96_timestamps=int96)
    assert texts(frame, "day") == texts(frame, "at") == [*SHOWN, None]
    assert frame.count() == len(STORED)  # no column is read for it


@pytest.mark.parametrize("name", ["day", "at"])
def test_filters_find_what_is_shown(tmp_path: Path, name: str) -> None:
    columns = {"day": days(STORED), "at": moments(STORED), "text": pa.array([*SHOWN, None])}
    frame = scan_of(tmp_path, columns, OLD)
    for text in SHOWN:
        found = frame.where(f"{name} >= '{text}' AND {name} < DATE '{text}' + 1").to_arrow()
        assert found["text"].to_pylist() == [text]
        assert frame.where(f"text = '{text}'").count() == 1


@pytest.mark.parametrize("int96", [True, False], ids=["INT96", "INT64"])
def test_a_mirror_is_refused_only_if_a_day_would_be_another(tmp_path: Path, int96: bool) -> None:
    """No reader of Iceberg knows the calendar."""
    zone, today = None if int96 else "UTC", [None, *range(-98000, 20454, 365)]  # pyiceberg reads INT96 since 1677
    modern = scan_of(
        tmp_path / "modern",
        {"day": days(today), "at": moments(today, zone)},
        OLD,
        use_deprecated_int96_timestamps=int96,
    )
    convert(modern.snapshot.root)
    assert verify(modern.snapshot.root, rows=True).is_equal
    for name, columns in {"day": {"day": days(STORED)}, "at": {"at": moments(STORED, zone)}}.items():
        old = scan_of(tmp_path / name, columns, OLD, use_deprecated_int96_timestamps=int96)
        with pytest.raises(ConversionError, match=r"in Java's old calendar.* rewrite it .*\.parquet"):
            convert(old.snapshot.root)


def test_a_leap_day_that_there_is_not_is_the_day_after(tmp_path: Path) -> None:
    assert texts(scan_of(tmp_path, {"day": days([-171597, -171596, -171595])}, OLD), "day") == [
        "1500-02-28",
        "1500-03-01",
        "1500-03-01",
    ]


@pytest.mark.parametrize(
    ("metadata", "int96", "expected"),
    [
        ({}, False, "1000-01-06"),
        ({"version": "3.0.0"}, False, "1000-01-06"),
        ({"version": "3.0.0"}, True, "1000-01-01"),
        ({"version": "3.1.0"}, True, "1000-01-06"),
        ({"version": "3.1.0", "legacyINT96": ""}, True, "1000-01-01"),
        ({"version": "3.1.0", "legacyDateTime": ""}, True, "1000-01-06"),
    ],
)
def test_what_no_metadata_tells_of_stays(tmp_path: Path, metadata: dict[str, str], int96: bool, expected: str) -> None:
    stored = moments([SHOWN["1000-01-01"]], None if int96 else "UTC")
    frame = scan_of(tmp_path, {"at": stored}, metadata, use_deprecated_int96_timestamps=int96)
    assert texts(frame, "at") == [expected]


def test_timestamps_without_a_zone_stay(tmp_path: Path) -> None:
    assert texts(scan_of(tmp_path, {"local": moments([SHOWN["1000-01-01"]], None)}, OLD), "local") == ["1000-01-06"]


def test_timestamps_in_another_time_zone_are_refused_before_1900(tmp_path: Path) -> None:
    elsewhere = OLD | {"timeZone": "America/Los_Angeles"}
    columns = {"day": days([-25568, -25567]), "at": moments([-25568, -25567])}
    frame = scan_of(tmp_path, columns, elsewhere)
    assert texts(frame.select("day"), "day") == ["1899-12-31", "1900-01-01"]
    with pytest.raises(UnsupportedFeatureError, match=r"before 1900 .* America/Los_Angeles; rewrite it with Spark"):
        frame.to_arrow()
    modern = scan_of(tmp_path / "modern", {"at": moments([-25567])}, elsewhere)
    assert texts(modern, "at") == ["1900-01-01"]


def test_nested_dates_are_converted(tmp_path: Path) -> None:
    inner, shown = days([*STORED, None]), [*SHOWN, None, None]
    count = len(inner)
    offsets = pa.array([0, 2, 2, count], pa.int32())
    file = pa.table(
        {
            "s": pa.StructArray.from_arrays([inner.slice(0, 3)], ["d"], mask=pa.array([False, True, False])),
            "l": pa.ListArray.from_arrays(offsets, inner),
            "m": pa.MapArray.from_arrays(offsets, pa.array(range(count)), inner),
        }
    )
    table = TableBuilder(default_engine(), str(tmp_path / "t"), schema_from_arrow(file.schema))
    marked = file.replace_schema_metadata({"org.apache.spark.legacyDateTime": ""})
    table.create(table.add(marked, stats=None))
    found = lakeport.scan(table.root).to_arrow()
    assert pc.struct_field(found["s"], "d").cast(pa.string()).to_pylist() == [shown[0], None, shown[2]]
    assert pc.list_flatten(found["l"]).cast(pa.string()).to_pylist() == shown
    assert found["m"].combine_chunks().items.cast(pa.string()).to_pylist() == shown
    assert found["m"].combine_chunks().offsets == found["l"].combine_chunks().offsets == offsets
