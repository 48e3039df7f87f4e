"""SQL conditions that drop deleted rows from DuckDB's Parquet scan."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.kernel.deletion_vectors import DeletionVector
from lakeport.kernel.values import array_of, from_numpy, own_scalar

_FILE_BITS = 38
"""A row's number is that of its file, shifted by this many bits, plus its position."""
_BITS_OF_A_CHARACTER = 6
"""In base64."""
_CHARACTERS_OF_A_POSITION = 8
"""About the length of a position as text, with a comma."""
_LARGEST_BITMAP = 1 << 30
"""DuckDB numbers bits by 32-bit integers."""


def living_rows(vectors: Mapping[int, DeletionVector]) -> list[str]:
    """Conditions that hold for rows that are not deleted, given deletion vectors by file number. Each vector takes the
    shorter form: a bitmap, which is faster to test, or a list of positions."""
    marked = {file: vector for file, vector in sorted(vectors.items()) if vector.cardinality}
    dense = {file: vector for file, vector in marked.items() if _is_dense(vector)}
    sparse = {file: vector for file, vector in marked.items() if file not in dense}
    return [
        *([_not_in_bitmaps([(file, _bitmap(vector)) for file, vector in dense.items()])] if dense else []),
        *([_not_listed(sparse)] if sparse else []),
    ]


def _is_dense(vector: DeletionVector) -> bool:
    bits = int(vector.positions[-1]) + 1
    return bits <= min(_LARGEST_BITMAP, vector.cardinality * _CHARACTERS_OF_A_POSITION * _BITS_OF_A_CHARACTER)


def _bitmap(vector: DeletionVector) -> bytes:
    bits = np.zeros(int(vector.positions[-1]) + 1, dtype=np.bool_)
    bits[vector.positions] = True
    return np.packbits(bits).tobytes()


def _not_in_bitmaps(files: Sequence[tuple[int, bytes]]) -> str:
    """A binary tree of CASE, so that each row takes few comparisons. Only CASE skips branches that do not apply, and
    `get_bit` fails past the end of a bitmap."""
    if len(files) > 1:
        middle = len(files) // 2
        halves = _not_in_bitmaps(files[:middle]), _not_in_bitmaps(files[middle:])
        return f"CASE WHEN file_index < {files[middle][0]} THEN {halves[0]} ELSE {halves[1]} END"
    ((file, bitmap),) = files
    bits = f"CAST(from_base64('{b64encode(bitmap).decode()}') AS BIT)"
    is_living = f"get_bit({bits}, CAST(file_row_number AS INTEGER)) = 0"
    covered = f"file_index = {file} AND file_row_number < {8 * len(bitmap)}"
    return f"CASE WHEN {covered} THEN {is_living} ELSE true END"


def _not_listed(vectors: Mapping[int, DeletionVector]) -> str:
    """Positions are one text that DuckDB splits: that is parsed faster than numbers."""
    deleted = _row_number("file", "unnest(string_split(positions, ','))")
    parts = (f"({file}, '{_positions(vector)}')" for file, vector in vectors.items())
    listed = f"SELECT {deleted} FROM (VALUES {', '.join(parts)}) AS deleted(file, positions)"
    return f"{_row_number('file_index', 'file_row_number')} NOT IN ({listed})"


def _row_number(file: str, position: str) -> str:
    return f"(CAST({file} AS BIGINT) << {_FILE_BITS}) + CAST({position} AS BIGINT)"


def _positions(vector: DeletionVector) -> str:
    texts = from_numpy(vector.positions).cast(pa.string())
    whole = pa.ListArray.from_arrays(array_of([0, len(texts)], pa.int32()), texts)
    joined: str = pc.binary_join(whole, own_scalar(","))[0].as_py()
    return joined
