"""Values and arrays: conversion between Arrow and Python, dates and times of every year, exact decimals.

Imports nothing of the kernel.
"""

from lakeport.kernel.values.arrays import (
    EXACT,
    FALSE,
    TRUE,
    array_of,
    decimal_type,
    from_numpy,
    null_of,
    own_copy,
    own_scalar,
    python_value,
    repeat_all,
    scalar_of,
    take_or_null,
    to_integers,
    to_mask,
)
from lakeport.kernel.values.moments import (
    CYCLE_DAYS,
    CYCLE_YEARS,
    DAY_MICROSECONDS,
    MOMENT_KINDS,
    Day,
    FarDate,
    FarTime,
    Moment,
    day_at,
    day_of,
    days_of,
    from_datetime64,
    microseconds_of,
    moment_at,
    utc_text,
)

__all__ = [
    "CYCLE_DAYS", "CYCLE_YEARS", "DAY_MICROSECONDS", "EXACT", "FALSE", "MOMENT_KINDS", "TRUE", "Day", "FarDate",
    "FarTime", "Moment", "array_of", "day_at", "day_of", "days_of", "decimal_type", "from_datetime64", "from_numpy",
    "microseconds_of", "moment_at", "null_of", "own_copy", "own_scalar", "python_value", "repeat_all", "scalar_of",
    "take_or_null", "to_integers", "to_mask", "utc_text",
]  # fmt: skip
