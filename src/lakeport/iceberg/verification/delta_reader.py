"""An independent Delta reader: a bug in our kernel would show in the mirror too, and comparing the two would not find
it. Rows are compared by a fingerprint that is independent of their order; its memory use is small and constant. Values
are compared, not their Arrow types, as in `comparison`. deltalake is an optional package.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from lakeport.iceberg.verification.comparison import comparable, without_views
from lakeport.kernel.values import EXACT
from lakeport.locations import is_url

Hashes = npt.NDArray[np.uint64]

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


@dataclass
class Fingerprint:
    """Of whole rows, and of each column. Sums wrap around."""

    names: tuple[str, ...]
    rows: int = 0
    whole: int = 0
    columns: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.columns = dict.fromkeys(self.names, 0)

    @classmethod
    def of(cls, names: Iterable[str], batches: Iterable[pa.RecordBatch]) -> Fingerprint:
        """Columns are matched by name, in any order."""
        found = cls(tuple(names))
        for batch in batches:
            found._add(batch)
        return found

    def _add(self, batch: pa.RecordBatch) -> None:
        rows = np.zeros(batch.num_rows, dtype=np.uint64)
        for name in self.names:
            hashes = _hash(batch.column(name))
            self.columns[name] = (self.columns[name] + _sum(hashes)) % 2**64
            rows = (rows ^ hashes) * _FACTOR
            rows ^= rows >> _HALF
        self.rows += batch.num_rows
        self.whole = (self.whole + _sum(rows * _FACTOR)) % 2**64

    def difference(self, other: Fingerprint) -> str | None:
        """The difference from the other; None if they are equal."""
        if self.rows != other.rows:
            return f"{other.rows} rows, not {self.rows}"
        differing = [name for name in self.names if self.columns[name] != other.columns[name]]
        if differing:
            return f"other values in {', '.join(differing)}"
        return "the same values in other rows" if self.whole != other.whole else None


def _sum(hashes: Hashes) -> int:
    return int(hashes.sum(dtype=np.uint64))


def _hash(column: pa.Array) -> Hashes:
    """Hash each distinct value once, if Arrow can find the distinct values."""
    column = _plain(column)
    if types.is_nested(column.type) or types.is_null(column.type):
        return _hash_values(column)
    encoded = column.dictionary_encode(null_encoding="encode")
    hashes: Hashes = _hash_values(encoded.dictionary)[encoded.indices.to_numpy(zero_copy_only=False)]
    return hashes


def _plain(column: pa.Array) -> pa.Array:
    if isinstance(column, pa.ExtensionArray):
        return _plain(column.storage)
    if types.is_dictionary(column.type):
        return _plain(column.dictionary_decode())
    if types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us")).cast(pa.int64())
    return without_views(column)


def _hash_values(values: pa.Array) -> Hashes:
    texts = (repr(_canonical(comparable(value))) for value in values)
    digests = [hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest() for text in texts]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def _canonical(value: Any) -> Any:
    """Equal for equal values, whichever reader they come from."""
    match value:
        case dict():
            return sorted((name, _canonical(item)) for name, item in value.items())
        case list() | tuple():
            return [_canonical(item) for item in value]
        case float():
            return value or 0.0
        case Decimal():
            return value.normalize(EXACT)
    return value


@dataclass(frozen=True)
class SecondOpinion:
    """The findings of another reader in a Delta table."""

    reader: str | None
    """The reader and its version; None if none could read the table."""
    why_not: str | None = None
    """Why there is no reader."""
    difference: str | None = None
    """The difference from our rows."""


def ask_another_reader(
    root: str, version: int, ours: pa.RecordBatchReader, options: Mapping[str, Any]
) -> SecondOpinion:
    """Compare `ours`, the rows of a version as read by our kernel, with those of another reader."""
    try:
        import deltalake
    except ImportError:
        return SecondOpinion(None, "deltalake is not installed")
    if is_url(root) and not options:  # it might search for credentials for minutes
        return SecondOpinion(None, "deltalake needs storage options to read the table")
    names = ours.schema.names
    name = f"deltalake {deltalake.__version__}"
    try:
        table = deltalake.DeltaTable(root, version=version, storage_options={k: str(v) for k, v in options.items()})
        rows = pa.RecordBatchReader.from_stream(table.scan())
        if sorted(rows.schema.names) != sorted(names):
            return SecondOpinion(
                name, difference=f"{name} finds the columns {', '.join(rows.schema.names)} in the table"
            )
        theirs = Fingerprint.of(names, rows)
    except Exception as error:  # a reader's own limits do not affect the mirror
        return SecondOpinion(None, f"{name} cannot read the table: {' '.join(str(error).split())[:200]}")
    what = Fingerprint.of(names, ours).difference(theirs)
    return SecondOpinion(name, difference=what and f"{name} reads the Delta table differently from Lakeport: {what}")
