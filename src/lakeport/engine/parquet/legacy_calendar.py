"""Dates and timestamps in Java's old calendar, which is Julian before 1582-10-15.

Spark 2 wrote Parquet files in it, and later versions still can. The file's metadata says so. Each day is converted, as
Spark does, to the one with the same year, month and day in today's calendar.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lakeport.engine.parquet.batch_size import BatchSize
from lakeport.engine.parquet.open_file import OpenFile
from lakeport.errors import UnsupportedFeatureError
from lakeport.kernel.data_files import make_batch, map_leaves
from lakeport.kernel.values import DAY_MICROSECONDS, day_of, days_of

_SPARK = b"org.apache.spark."
_SWITCH = days_of(day_of(1582, 10, 15))
_ZONES_SWITCH = days_of(day_of(1900, 1, 1))
"""Since then, the old classes agree with all others on time zone offsets."""
_MARCH_OF_YEAR_0 = days_of(day_of(0, 3, 1)) - 2
"""In the Julian calendar."""
_BATCH = 1 << 16
_UTC = (b"UTC", b"Etc/UTC", b"GMT", b"Z", b"+00:00")


@dataclass(frozen=True)
class LegacyCalendar:
    """Converts the columns of one file."""

    path: str
    zone: bytes
    converts_days: bool
    """Also for timestamps, except INT96."""
    int96_columns: frozenset[str]
    """Top-level INT96 columns to convert."""

    @classmethod
    def of_file(cls, file: OpenFile, path: str) -> LegacyCalendar | None:
        """None if nothing in the file needs conversion."""
        metadata = file.metadata.metadata or {}
        converts_days = _is_legacy(metadata, b"legacyDateTime", b"3.0.0")
        int96_columns = frozenset(_int96_columns(file) if _is_legacy(metadata, b"legacyINT96", b"3.1.0") else ())
        if not converts_days and not int96_columns:
            return None
        return cls(path, metadata.get(_SPARK + b"timeZone", b"UTC"), converts_days, int96_columns)

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Raises `UnsupportedFeatureError` for timestamps before 1900 in a time zone other than UTC."""
        columns = [
            map_leaves(column, self._converted_int96 if name in self.int96_columns else self._converted)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return make_batch(columns, batch.schema, batch.num_rows)

    def changes(self, file: OpenFile) -> bool:
        """Whether conversion changes any value in the file. Raises the errors of `convert`."""
        columns = [field.name for field in file.schema_arrow if _holds_times(field.type)]
        batches = file.batches(BatchSize.of(_BATCH), range(file.metadata.num_row_groups), columns) if columns else ()
        return any(not self.convert(batch).equals(batch) for batch in batches)

    def _converted(self, array: pa.Array) -> pa.Array:
        if not self.converts_days:
            return array
        if types.is_date32(array.type):
            return _with_gregorian_days(array, 1)
        is_zoned = types.is_timestamp(array.type) and array.type.tz is not None
        return self._converted_moments(array) if is_zoned else array

    def _converted_int96(self, array: pa.Array) -> pa.Array:
        return self._converted_moments(array) if types.is_timestamp(array.type) else self._converted(array)

    def _converted_moments(self, array: pa.Array) -> pa.Array:
        unit = DAY_MICROSECONDS if array.type.unit == "us" else DAY_MICROSECONDS // 1000
        if self.zone not in _UTC and _begins_before(array, _ZONES_SWITCH * unit):
            raise UnsupportedFeatureError(
                f"the file holds timestamps before 1900 in Java's old calendar and the time zone {self.zone.decode()}; "
                f"rewrite it with Spark [{self.path}]",
                features=["legacyDateTime"],
            )
        return _with_gregorian_days(array, unit)


def _is_legacy(metadata: Mapping[bytes, bytes], key: bytes, first_other_version: bytes) -> bool:
    return _SPARK + key in metadata or metadata.get(_SPARK + b"version", first_other_version) < first_other_version


def _int96_columns(file: OpenFile) -> list[str]:
    leaves = [file.schema.column(i) for i in range(len(file.schema))]
    return [leaf.path.partition(".")[0] for leaf in leaves if leaf.physical_type == "INT96"]


def _holds_times(data_type: pa.DataType) -> bool:
    is_time = types.is_date(data_type) or types.is_timestamp(data_type)
    return is_time or any(_holds_times(data_type.field(i).type) for i in range(data_type.num_fields))


def _begins_before(array: pa.Array, end: int) -> bool:
    least = pc.min(array.view(f"int{array.type.bit_width}")).as_py()
    return least is not None and least < end


def _with_gregorian_days(array: pa.Array, day: int) -> pa.Array:
    """Dates or timestamps with converted days; `day` is the length of one."""
    if not _begins_before(array, _SWITCH * day):
        return array
    stored = f"i{array.type.bit_width // 8}"
    values = np.frombuffer(array.buffers()[1], stored, array.offset + len(array)).astype(np.int64)
    days, since_midnight = np.divmod(values, day)
    converted = np.where(days < _SWITCH, _gregorian(days), days) * day + since_midnight
    buffers = [array.buffers()[0], pa.py_buffer(converted.astype(stored))]
    return pa.Array.from_buffers(array.type, len(array), buffers, array.null_count, array.offset)


def _gregorian(days: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The days with the same Gregorian date as these in the Julian calendar. Years start in March here, so that a leap
    day comes last."""
    year = (4 * (days - _MARCH_OF_YEAR_0) + 3) // 1461
    century = year // 100
    return days - (century - century // 4 - 2)
