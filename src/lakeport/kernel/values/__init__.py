"""Values and arrays: conversion between Arrow and Python, nested arrays, dates and times of every year, exact decimals.

Imports nothing of the kernel.
"""

from lakeport.kernel.values.arrays import (
    EXACT, FALSE, TRUE, array_of, child_arrays, child_fields, child_names, decimal_type, from_numpy, is_any_list,
    is_bytes, is_number, is_text, item_offsets, null_of, own_copy, own_scalar, python_value, repeat_all, scalar_of,
    take_or_null, to_integers, to_mask, visible_children, with_child_fields, with_children, with_items,
)  # fmt: skip
from lakeport.kernel.values.moments import (
    CYCLE_DAYS, CYCLE_YEARS, DAY_MICROSECONDS, MOMENT_KINDS, Day, FarDate, FarTime, Moment, day_at, day_of, days_of,
    from_datetime64, microseconds_of, moment_at, parse_time, utc_text,
)  # fmt: skip
from lakeport.kernel.values.portable import Portable
