"""File statistics in the log as column bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.kernel.data_files.columns import cast
from lakeport.kernel.data_files.skipping import Bounds
from lakeport.kernel.expressions import Column
from lakeport.kernel.schema import VOID, DataType, PrimitiveType, StructType, arrow_type, is_variant, leaves_of
from lakeport.kernel.values import (
    EXACT,
    FALSE,
    TRUE,
    FarDate,
    FarTime,
    array_of,
    from_numpy,
    null_of,
    python_value,
    scalar_of,
    utc_text,
)

CUT_LENGTH = 32
"""Writers truncate long strings to this many characters or UTF-16 units. A maximum of fewer bytes is untruncated."""
_EXACT_DIGITS = 15
"""A decimal with this many digits survives a round trip through double."""
_DOUBLE_DIGITS = 17
"""Doubles are written with at most this many digits, or with all of their digits."""
_SOME_DOUBLES = -15
"""This power of ten, relative to a number, is at least four times the distance to the next double."""
_LEAST_NORMAL_FLOAT = float(np.finfo(np.float32).tiny)
"""Smaller floats have fewer digits."""

_ZERO, _ALMOST_A_MILLISECOND, _LATEST = (scalar_of(n, pa.int64()) for n in (0, 999, 2**63 - 1000))
_CUT = scalar_of(CUT_LENGTH, pa.int32())
_EMPTY, _LAST_CHARACTER = (scalar_of(text, pa.string()) for text in ("", "\U0010ffff"))
_OLD_TIE_BREAKER = "\ufffd"
_BOUNDED_INEXACTLY = ("float", "double", "string", "timestamp", "timestamp_ntz")

_Tree = dict[str, Any]
_ENCODER = msgspec.json.Encoder(decimal_format="number", enc_hook=str)


def physical_path(schema: StructType, path: tuple[str, ...], mapping_mode: str) -> tuple[str, ...]:
    """The physical names along the path to a column."""
    fields = schema.resolve(path)
    return tuple(f.physical_name(mapping_mode) for f in fields)


def stats_type(schema: StructType, columns: Iterable[Column], mapping_mode: str) -> pa.DataType:
    """The type of some columns' statistics, for reading `stats_parsed` and parsing JSON."""
    values: _Tree = {}
    nulls: _Tree = {}
    for column in columns:
        physical = physical_path(schema, column.path, mapping_mode)
        data_type = schema.resolve(column.path)[-1].type
        if not isinstance(data_type, StructType):
            put_at(nulls, physical, pa.int64())
        if _is_ordered(data_type):
            put_at(values, physical, arrow_type(data_type))
    fields = [pa.field("numRecords", pa.int64()), pa.field("tightBounds", pa.bool_())]
    for name, tree in (("minValues", values), ("maxValues", values), ("nullCount", nulls)):
        fields += [pa.field(name, _type_of(tree))] if tree else []
    return pa.struct(fields)


def whole_stats_type(schema: StructType, partition_columns: Iterable[str], mapping_mode: str) -> pa.DataType:
    """The type of the statistics of all columns."""
    skip = set(partition_columns)
    leaves = [Column(tuple(f.name for f in way)) for way in leaves_of(schema) if way[0].name not in skip]
    return stats_type(schema, leaves, mapping_mode)


def _is_ordered(data_type: DataType) -> bool:
    return (
        isinstance(data_type, PrimitiveType) and not is_variant(data_type) and data_type.name not in ("binary", "void")
    )


def put_at(tree: _Tree, path: tuple[str, ...], leaf: Any) -> None:
    """Put a leaf into nested dicts, making those that are missing."""
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = leaf


def _type_of(tree: _Tree | pa.DataType) -> pa.DataType:
    if not isinstance(tree, dict):
        return tree
    return pa.struct([pa.field(name, _type_of(inner)) for name, inner in tree.items()])


class FileStatistics:
    """The statistics of a batch of files, in a type made by `stats_type`."""

    def __init__(self, statistics: pa.StructArray, schema: StructType, mapping_mode: str) -> None:
        self._stats, self._schema, self._mapping_mode = statistics, schema, mapping_mode
        self._levels: dict[tuple[str, ...], dict[str, pa.Array]] = {}

    def bounds_of(self, column: Column) -> Bounds | None:
        physical = physical_path(self._schema, column.path, self._mapping_mode)
        data_type = self._schema.resolve(column.path)[-1].type
        if isinstance(data_type, StructType):
            return None  # only its leaves have statistics
        if data_type == VOID:
            ones = from_numpy(np.ones(len(self._stats), np.int64))
            return Bounds(None, None, nulls=ones, rows=ones)
        rows = self._at("numRecords")
        lower, upper = self._at("minValues", *physical), self._at("maxValues", *physical)
        return Bounds(
            lower=None if lower is None else _lowered(lower),
            upper=None if upper is None else _raised(upper),
            nulls=self._trusted_nulls(self._at("nullCount", *physical), rows),
            rows=rows,
            exact=isinstance(data_type, PrimitiveType) and data_type.name not in _BOUNDED_INEXACTLY,
        )

    def _trusted_nulls(self, nulls: pa.Array | None, rows: pa.Array | None) -> pa.Array | None:
        """With wide bounds, a null count is meaningful only if it is 0 or the number of rows."""
        tight = self._at("tightBounds")
        if nulls is None or rows is None or tight is None:
            return nulls
        sound = pc.or_kleene(pc.fill_null(tight, TRUE), pc.or_kleene(pc.equal(nulls, _ZERO), pc.equal(nulls, rows)))
        return pc.if_else(pc.fill_null(sound, FALSE), nulls, null_of(pa.int64()))

    def _at(self, *path: str) -> pa.Array | None:
        return self._level(path[:-1]).get(path[-1])

    def _level(self, path: tuple[str, ...]) -> dict[str, pa.Array]:
        """The fields of the struct at a path, empty if there is no struct. Flattened once, however many fields are
        used."""
        if path not in self._levels:
            struct = self._at(*path) if path else self._stats
            self._levels[path] = {} if struct is None else _fields_of(struct)
        return self._levels[path]


def _fields_of(array: pa.Array) -> dict[str, pa.Array]:
    """The fields of a struct by name; empty for other types, and without duplicate names."""
    if not pa.types.is_struct(array.type):
        return {}
    fields = array.flatten()  # unlike field(), applies the parent's nulls
    names = Counter(field.name for field in array.type)
    return {field.name: inner for field, inner in zip(array.type, fields, strict=True) if names[field.name] == 1}


def _lowered(lower: pa.Array) -> pa.Array:
    """A safe lower bound of the file's values, however the writer changed its minimum."""
    if pa.types.is_float64(lower.type):
        return pc.min_element_wise(lower, _as_float(lower))
    if pa.types.is_decimal(lower.type):
        return _spread(lower, -1)
    return lower


def _raised(upper: pa.Array) -> pa.Array:
    """A safe upper bound of the file's values, however the writer changed its maximum."""
    if pa.types.is_float64(upper.type):
        return pc.max_element_wise(upper, _as_float(upper))
    if pa.types.is_decimal(upper.type):
        return _spread(upper, 1)
    if pa.types.is_string(upper.type):
        return _raised_texts(upper)
    if pa.types.is_timestamp(upper.type):
        return _raised_moments(upper)
    return upper


def _as_float(bounds: pa.Array) -> pa.Array:
    """Replace each double that may be the text of a float by that float: 3.4000000953674316 for 3.4.

    Files may have floats under a column of doubles, without a trace in the log. The text of a float has at most nine
    digits, and differs from it by less than a unit in the last place."""
    values = np.frombuffer(bounds.buffers()[1], np.float64, len(bounds), bounds.offset * 8)
    with np.errstate(all="ignore"):
        floats = values.astype(np.float32).astype(np.float64)
        is_text = (np.abs(values) < _LEAST_NORMAL_FLOAT) & (floats != 0)
        ninth_digit = 10.0 ** (np.floor(np.log10(np.abs(values))) - 8)
        for last_digit in (ninth_digit, 10 * ninth_digit, 100 * ninth_digit):
            digits = values / last_digit
            is_text |= (np.abs(digits - np.rint(digits)) < 1e-4) & (np.abs(floats - values) <= last_digit)
    return pc.if_else(from_numpy(is_text), bounds.cast(pa.float32(), safe=False).cast(pa.float64()), bounds)


def _spread(bounds: pa.Array, direction: int) -> pa.Array:
    """Move decimals up or down by the precision lost in writers, such as deltalake, that convert them to doubles."""
    if bounds.type.precision <= _EXACT_DIGITS:
        return bounds
    least = scalar_of(Decimal(1).scaleb(_EXACT_DIGITS - bounds.type.scale), bounds.type)
    long = pc.fill_null(pc.greater_equal(pc.abs(bounds), least), FALSE)
    if not long.true_count:
        return bounds
    values = [_beside_double(value, direction, bounds.type) for value in bounds.filter(long).to_pylist()]
    return pc.replace_with_mask(bounds, long, array_of(values, bounds.type))


def _beside_double(bound: Decimal, direction: int, data_type: pa.DataType) -> Decimal | None:
    """The bound if it cannot have been a double; else one that is some doubles away. None if the type has no such
    value, or if digits beyond 64 bits may have been cut off, as by deltalake."""
    if bound == (2**63 - 1 if direction > 0 else -(2**63)):
        return None
    if len(bound.normalize(EXACT).as_tuple().digits) > _DOUBLE_DIGITS and bound != Decimal(float(bound)):
        return bound
    away = EXACT.fma(bound.copy_abs(), Decimal(direction).scaleb(_SOME_DOUBLES), bound)
    rounding = ROUND_CEILING if direction > 0 else ROUND_FLOOR
    rounded = away.quantize(Decimal(1).scaleb(-data_type.scale), rounding, EXACT)
    return rounded if rounded.copy_abs() < 10 ** (data_type.precision - data_type.scale) else None


def _raised_texts(upper: pa.Array) -> pa.Array:
    """Long texts may be truncated. Older versions of Delta append U+FFFD, which sorts below some characters, and split
    surrogate pairs, whose halves become question marks."""
    marked = pc.ends_with(upper, _OLD_TIE_BREAKER)
    if marked.true_count:
        upper = pc.if_else(marked, pc.replace_substring_regex(upper, rf"\??{_OLD_TIE_BREAKER}+$", ""), upper)
    cut = pc.or_(marked, pc.greater_equal(pc.binary_length(upper), _CUT))
    return pc.if_else(cut, pc.binary_join_element_wise(upper, _LAST_CHARACTER, _EMPTY), upper)


def _raised_moments(upper: pa.Array) -> pa.Array:
    """Timestamps are truncated to milliseconds."""
    micros = upper.cast(pa.int64())
    late = pc.greater(micros, _LATEST)
    widened = pc.add(pc.min_element_wise(micros, _LATEST), _ALMOST_A_MILLISECOND)
    return pc.if_else(late, null_of(pa.int64()), widened).cast(upper.type)


def conform_parsed(array: pa.StructArray, target: pa.DataType) -> pa.StructArray:
    """Convert `stats_parsed` to the requested type; cells that do not fit are unknown."""
    children, known = [], _fields_of(array)
    for field in target:
        child = known[field.name] if field.name in known else pa.nulls(len(array), field.type)
        if pa.types.is_struct(field.type):
            fits = pa.types.is_struct(child.type)
            child = conform_parsed(child, field.type) if fits else pa.nulls(len(array), field.type)
        else:
            child = _cast_or_unknown(child, field.type)
        children.append(child)
    return pa.StructArray.from_arrays(children, fields=list(target))


def _cast_or_unknown(array: pa.Array, target: pa.DataType) -> pa.Array:
    try:
        return cast(array, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError):
        return pa.nulls(len(array), target)


def format_stats(parsed: pa.StructArray) -> pa.StringArray:
    """`stats_parsed` as the JSON text that `stats` would hold."""
    texts = [None if row is None else _ENCODER.encode(_plain(row)).decode() for row in _python_rows(parsed)]
    return array_of(texts, pa.string())


def _python_rows(parsed: pa.StructArray) -> list[Any]:
    try:
        return list(parsed.to_pylist())
    except (OverflowError, ValueError):  # a year outside Python's range
        return [_python_row(row) for row in parsed]


def _python_row(cell: pa.Scalar) -> Any:
    if isinstance(cell, pa.StructScalar):
        return {name: _python_row(inner) for name, inner in cell.items()} if cell.is_valid else None
    value = python_value(cell)
    return utc_text(value) if isinstance(value, FarDate | FarTime) else value


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items() if inner is not None}
    return value


class _NumRecords(msgspec.Struct):
    numRecords: int | None = None  # noqa: N815  # the key in JSON


def decode_num_records(stats: str | None) -> int | None:
    """`numRecords` of a file's statistics; None if missing or invalid."""
    try:
        records = msgspec.json.decode(stats, type=_NumRecords).numRecords if stats else None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return records if records is not None and records >= 0 else None
