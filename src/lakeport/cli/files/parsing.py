"""Parse JSON and CSV values: infer the types of new tables, and convert values into Arrow columns.

`cli.rendering` does the reverse. `InvalidDataError` names the first value that does not have the type. Times without a
zone are UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import chain, islice
from typing import Annotated, Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import InvalidDataError
from lakeport.kernel.schema import (
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    arrow_type,
    format_type,
    is_variant,
)
from lakeport.kernel.values import array_of, null_of, scalar_of
from lakeport.kernel.variant import encode_variant

_Values = TypeVar("_Values", bound=Sequence[Any])
_SHOWN = 80

_EMPTY, _NULL = scalar_of("", pa.string()), null_of(pa.string())
_ZONED = r"\d[T ]\d{2}:.*(Z|[+-]\d{2}(:?\d{2})?)$"


def _integer(bits: int) -> Any:
    return Annotated[int, msgspec.Meta(ge=-(1 << bits - 1), le=(1 << bits - 1) - 1)]


_KINDS: dict[str, Any] = {
    **{"byte": _integer(8), "short": _integer(16), "integer": _integer(32), "long": _integer(64)},
    **{"float": float, "double": float, "boolean": bool, "string": str, "binary": bytes},
    **{"date": date, "timestamp": datetime, "timestamp_ntz": Annotated[datetime, msgspec.Meta(tz=False)]},
    **{"decimal": Decimal, "void": None},
}
"""What msgspec converts a JSON value to, by the type of the column."""


def json_column(values: list[Any], field: StructField) -> pa.Array:
    """Convert decoded JSON into a column. Raises `InvalidDataError` with the row."""
    goal = arrow_type(field.type)
    return _converted(values, field, lambda part: array_of(_typed(part, field.type), goal))


def text_column(texts: pa.StringArray, field: StructField) -> pa.Array:
    """Convert texts of a CSV file into a column. Empty text is null, except in string columns. Raises
    `InvalidDataError` with the row."""
    name = field.type.name if isinstance(field.type, PrimitiveType) else ""
    if name == "string":
        return texts
    texts = pc.utf8_trim_whitespace(texts)
    texts = pc.if_else(pc.equal(texts, _EMPTY), _NULL, texts)
    if name in ("", "variant"):
        return json_column(_converted(texts, field, _parsed), field)
    if name == "binary":
        return json_column(texts.to_pylist(), field)
    if name == "timestamp":
        return _converted(texts, field, _moments)
    goal = arrow_type(field.type)
    return _converted(texts, field, lambda part: part.cast(goal))


def _converted(values: _Values, field: StructField, convert: Callable[[_Values], Any]) -> Any:
    try:
        return convert(values)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError):
        row, error = _first_failure(values, convert)
    shown = str(values[row])
    problem = str(error).partition(" - at ")[0].splitlines()[0]
    raise InvalidDataError(
        f"{shown[:_SHOWN]!r} in column {field.name!r} is not a valid {format_type(field.type)}: {problem}",
        column=field.name,
        row=row,
    ) from error


def _first_failure(values: Any, convert: Callable[[Any], Any]) -> tuple[int, Exception]:
    """The first value that cannot be converted, found by bisection, and its error."""
    start, end = 0, len(values)
    while end - start > 1:
        middle = (start + end) // 2
        try:
            convert(values[start:middle])
            start = middle
        except (msgspec.MsgspecError, TypeError, ValueError, OverflowError):
            end = middle
    try:
        convert(values[start:end])
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        return start, error
    raise AssertionError("all values can be converted one by one, but not together")


def _parsed(texts: pa.StringArray) -> list[Any]:
    decode = msgspec.json.Decoder(float_hook=Decimal).decode
    return [None if text is None else decode(text) for text in texts.to_pylist()]


def _moments(texts: pa.StringArray) -> pa.Array:
    goal = pa.timestamp("us", tz="UTC")
    zoned = pc.match_substring_regex(texts, _ZONED)
    moments = pc.if_else(zoned, texts, _NULL).cast(goal)
    local = pc.if_else(zoned, _NULL, texts).cast(pa.timestamp("us")).view(goal)
    return pc.coalesce(moments, local)


def _typed(values: list[Any], data_type: DataType) -> list[Any]:
    """Convert JSON values into Python values for `array_of`. Raises `ValidationError` and `ValueError`."""
    match data_type:
        case PrimitiveType() if is_variant(data_type):
            return [None if value is None else _variant(value) for value in values]
        case PrimitiveType(name):
            kind = _KINDS["decimal" if data_type.decimal else name]
            return msgspec.convert(values, list[kind | None])  # type: ignore[valid-type]  # made at run time
        case ArrayType(element, _):
            flat = iter(_typed(list(chain.from_iterable(_present(values, list))), element))
            return [None if value is None else list(islice(flat, len(value))) for value in values]
        case MapType():
            return _maps(values, data_type)
        case StructType(fields):
            return _objects(values, fields)


def _present(values: list[Any], kind: type) -> Iterator[Any]:
    for value in values:
        if isinstance(value, kind):
            yield value
        elif value is not None:
            raise ValueError(f"expected {'a list' if kind is list else 'an object'}, not {value!r:.40}")


def _maps(values: list[Any], data_type: MapType) -> list[Any]:
    present = list(_present(values, dict))
    kind = _KINDS[data_type.key.name] if isinstance(data_type.key, PrimitiveType) else None
    keys = msgspec.convert([key for value in present for key in value], list[kind], strict=False)  # type: ignore[valid-type]
    items = _typed([item for value in present for item in value.values()], data_type.value)
    entries = iter(zip(keys, items, strict=True))
    return [None if value is None else dict(islice(entries, len(value))) for value in values]


def _objects(values: list[Any], fields: tuple[StructField, ...]) -> list[Any]:
    present = list(_present(values, dict))
    names = [field.name for field in fields]
    if unknown := {key for value in present for key in value}.difference(names):
        raise ValueError(f"unknown field {min(unknown)!r}; the fields are {', '.join(names)}")
    columns = [_typed([value.get(field.name) for value in present], field.type) for field in fields]
    rows = zip(*columns, strict=True) if columns else iter([()] * len(present))
    return [None if value is None else dict(zip(names, next(rows), strict=True)) for value in values]


def _variant(value: Any) -> dict[str, bytes]:
    metadata, encoded = encode_variant(value)
    return {"metadata": metadata, "value": encoded}


_STRING, _LONG, _DOUBLE = PrimitiveType("string"), PrimitiveType("long"), PrimitiveType("double")
_MOMENTS = (PrimitiveType("date"), PrimitiveType("timestamp"))
_CODE = r"^[+-]?0\d"
"""Digits that are not a quantity, as in a postal code."""
_LONG_NUMBER = r"^[+-]?\d{16}"
"""Digits that a double would lose."""


def infer_from_texts(texts: pa.StringArray) -> PrimitiveType:
    """The common type of all texts in a CSV column; string if there is none, or if all are empty."""
    known = pc.utf8_trim_whitespace(texts)
    known = known.filter(pc.not_equal(known, _EMPTY))
    if not len(known) or _any_matches(known, _CODE):
        return _STRING
    if _all_are(known, _LONG):
        return _LONG
    if _any_matches(known, _LONG_NUMBER):
        return _STRING
    return next((t for t in (_DOUBLE, PrimitiveType("boolean"), *_MOMENTS) if _all_are(known, t)), _STRING)


def infer_from_values(values: list[Any], name: str) -> DataType:
    """The common type of all values in a JSON column; string if all are null.

    Raises `ValueError` if there is none."""
    known = [value for value in values if value is not None]
    kinds = set(map(type, known))
    if kinds <= {str}:
        return _from_strings(known)
    if kinds == {bool}:
        return PrimitiveType("boolean")
    if kinds == {int} and all(-(2**63) <= value < 2**63 for value in known):
        return _LONG
    if kinds <= {int, float}:
        return _DOUBLE
    if kinds == {list}:
        return ArrayType(infer_from_values(list(chain.from_iterable(known)), f"{name}.element"))
    if kinds == {dict}:
        if not any(known):
            raise ValueError(f"the objects in column {name!r} have no fields, so its type is unknown: pass --schema")
        return StructType(tuple(infer_fields(known, f"{name}.")))
    types = " and ".join(sorted(_NAMES[kind] for kind in kinds))
    raise ValueError(f"the column {name!r} holds {types}, which have no common type: pass --schema")


_NAMES = {str: "strings", bool: "booleans", int: "numbers", float: "numbers", list: "lists", dict: "objects"}


def infer_fields(objects: list[dict[str, Any]], prefix: str = "") -> list[StructField]:
    """A field for each key in the objects, in order of appearance."""
    names = dict.fromkeys(key for row in objects for key in row)
    return [StructField(n, infer_from_values([row.get(n) for row in objects], prefix + n)) for n in names]


def _from_strings(texts: list[str]) -> PrimitiveType:
    array = array_of(texts, pa.string())
    return next((t for t in _MOMENTS if len(array) and _all_are(array, t)), _STRING)


def _all_are(texts: pa.StringArray, data_type: PrimitiveType) -> bool:
    try:
        text_column(texts, StructField("", data_type))
    except InvalidDataError:
        return False
    return True


def _any_matches(texts: pa.StringArray, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())
