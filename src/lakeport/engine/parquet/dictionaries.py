"""Decide which columns of a Parquet file get a dictionary.

A dictionary that does not pay costs the most: the encoder looks up each value until the dictionary is too large, then
starts over with plain values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyarrow import types

from lakeport.engine.parquet.leaves import leaves_of
from lakeport.kernel.values import from_numpy

_SAMPLE = 1 << 12
_DICTIONARY_BYTES = 1 << 20
"""The encoder gives up a larger dictionary."""


def columns_with_dictionary(rows: pa.Table) -> list[str]:
    """The Parquet columns worth a dictionary, as dotted paths: those whose values repeat in a sample of `rows`, and all
    nested ones."""
    return [
        ".".join(path)
        for field, column in zip(rows.schema, rows.columns, strict=True)
        if types.is_nested(field.type) or _pays(column)
        for path, _ in leaves_of(field)
    ]


def _pays(column: pa.ChunkedArray) -> bool:
    if len(column) <= _SAMPLE or types.is_dictionary(column.type):
        return True
    sample = _sample(column)
    distinct = len(sample.unique())
    if 2 * distinct > _SAMPLE:  # then most values of the column are not in the sample
        distinct = _birthdays(distinct)
    dictionary = distinct * sample.nbytes / _SAMPLE
    return bool(dictionary <= min(_DICTIONARY_BYTES, column.nbytes / 2))


def _sample(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values at random places: those at even distances hardly repeat if the column is sorted. Always the same places,
    so that equal rows make equal files."""
    places = np.sort(np.random.default_rng(0).choice(len(column), _SAMPLE, replace=False, shuffle=False))
    parts, start = [], 0
    for chunk in column.chunks:
        end = start + len(chunk)
        parts.append(chunk.take(from_numpy(places[(places >= start) & (places < end)] - start)))
        start = end
    return pa.chunked_array(parts, column.type)


def _birthdays(distinct: int) -> int:
    """About how many values a column has if so many are distinct in a sample: n values drawn from d give n²/2d pairs
    of equal ones."""
    return _SAMPLE**2 // (2 * max(_SAMPLE - distinct, 1))
