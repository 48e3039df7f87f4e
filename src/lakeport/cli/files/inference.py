"""Type inference for the columns of CSV and JSON files that a new table is created from."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.cli.files.typed_values import text_column
from lakeport.errors import InvalidDataError
from lakeport.kernel.schema import ArrayType, DataType, PrimitiveType, StructField, StructType
from lakeport.kernel.values import array_of, scalar_of

_STRING, _LONG, _DOUBLE = PrimitiveType("string"), PrimitiveType("long"), PrimitiveType("double")
_MOMENTS = (PrimitiveType("date"), PrimitiveType("timestamp"))
_EMPTY = scalar_of("", pa.string())
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
    if kinds == {dict} and any(known):
        return StructType(tuple(infer_fields(known, f"{name}.")))
    told = " and ".join(sorted(_NAMES[kind] for kind in kinds))
    raise ValueError(f"the column {name!r} holds {told}, which have no common type: pass --schema")


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
