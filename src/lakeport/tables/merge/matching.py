"""Match source rows to target rows by a condition over both.

Equalities between the sides use an index: equal keys get the same number. The rest of the condition is evaluated on the
candidates. Keys are equal as with `=`: NaN matches nothing; null matches only null, and only under `<=>`; 0.0 equals
-0.0; numbers and times of different types compare by value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lakeport.kernel.expressions import (
    Cast,
    Comparison,
    Expression,
    all_of,
    common_type,
    conjuncts,
    decimal_of,
    digits_of,
    type_of,
)
from lakeport.kernel.schema import DataType, PrimitiveType
from lakeport.kernel.values import FALSE, from_numpy, scalar_of, to_integers, to_mask
from lakeport.tables.merge.sides import Pairs, RowNumbers, Side, Sides

_BLOCK_PAIRS = 1 << 18
"""Candidates examined per block; more only if a single row has more."""
_MISSING = scalar_of(-1, pa.int32())


@dataclass(frozen=True)
class Key:
    """An equality between the sides; both values have the same type."""

    target: Expression
    source: Expression
    null_safe: bool


@dataclass(frozen=True)
class JoinCondition:
    """A conjunction over both sides, split by the sides that each part uses."""

    keys: tuple[Key, ...]
    target_only: Expression | None
    source_only: Expression | None
    rest: Expression | None

    @property
    def on_target(self) -> list[Expression]:
        """The parts that need target rows."""
        parts = (self.target_only, self.rest, *(key.target for key in self.keys))
        return [part for part in parts if part is not None]


def split_condition(bound: Expression, sides: Sides) -> JoinCondition:
    """Split a bound condition into parts."""
    keys: list[Key] = []
    on_target: list[Expression] = []
    on_source: list[Expression] = []
    rest: list[Expression] = []
    for part in conjuncts(bound):
        if (key := _as_key(part, sides)) is not None:
            keys.append(key)
        elif sides.source.is_in(part):
            (rest if sides.target.is_in(part) else on_source).append(part)
        else:
            on_target.append(part)
    return JoinCondition(tuple(keys), all_of(on_target), all_of(on_source), all_of(rest))


def _as_key(part: Expression, sides: Sides) -> Key | None:
    match part:
        case Comparison("=" | "<=>" as op, left, right):
            if _is_only(sides.source, left, sides):
                left, right = right, left
            if not (_is_only(sides.target, left, sides) and _is_only(sides.source, right, sides)):
                return None
            alike = _alike(left, right, sides)
            return None if alike is None else Key(*alike, op == "<=>")
    return None


def _is_only(side: Side, bound: Expression, sides: Sides) -> bool:
    other = sides.source if side is sides.target else sides.target
    return side.is_in(bound) and not other.is_in(bound)


def _alike(left: Expression, right: Expression, sides: Sides) -> tuple[Expression, Expression] | None:
    """Both values cast to a type in which equality is preserved; None if there is none."""
    ours, theirs = type_of(left, sides.schema), type_of(right, sides.schema)
    shared = common_type(ours, theirs)
    if not isinstance(shared, PrimitiveType) or (shared.decimal and shared != _exact_decimal(ours, theirs)):
        return None
    return (
        left if ours == shared else Cast(left, shared.name),
        right if theirs == shared else Cast(right, shared.name),
    )


def _exact_decimal(left: DataType, right: DataType) -> PrimitiveType:
    """The decimal type that holds all digits of both."""
    (p1, s1), (p2, s2) = digits_of(left) or (0, 0), digits_of(right) or (0, 0)
    scale = max(s1, s2)
    return decimal_of(max(p1 - s1, p2 - s2) + scale, scale)


class JoinKeys:
    """The values of both sides that have to be equal."""

    def __init__(self, sides: Sides, keys: Sequence[Key]) -> None:
        self._target = [sides.compile(key.target) for key in keys]
        self._source = [sides.compile(key.source) for key in keys]

    def of_target(self, rows: Pairs) -> list[pa.Array]:
        return [_normal(key.values(rows)) for key in self._target]

    def of_source(self, rows: pa.RecordBatch) -> list[pa.Array]:
        return [_normal(key.values(Pairs(None, rows))) for key in self._source]


class Matcher:
    """Finds matches for a source held in memory; target rows arrive in batches."""

    def __init__(
        self, sides: Sides, condition: JoinCondition, source: pa.RecordBatch, *, one_suffices: bool = False
    ) -> None:
        """`one_suffices` says that one match of a row is as good as all: where keys decide alone, only that is looked
        up, so that keys which many rows have on both sides take no more time than others."""
        self._source, self.condition = source, condition
        self._only_first = one_suffices and condition.rest is None
        self._on_target = None if condition.target_only is None else sides.compile(condition.target_only)
        self._rest = None if condition.rest is None else sides.compile(condition.rest)
        self._keys = JoinKeys(sides, condition.keys)
        keys = self._keys.of_source(source)
        usable = np.ones(source.num_rows, np.bool_)
        if condition.source_only is not None:
            usable = sides.compile(condition.source_only).holds(Pairs(None, source))
        self._index = KeyIndex(keys, [key.null_safe for key in condition.keys], usable)
        self.source_keys = [key.filter(from_numpy(usable)) for key in keys]
        """The source rows that can match."""

    def matches(self, target: pa.RecordBatch) -> Iterator[tuple[RowNumbers, RowNumbers]]:
        """Matching target and source rows, in blocks; all matches of a row are adjacent, in one block."""
        pairs = Pairs(target, None)
        rows = np.arange(target.num_rows, dtype=np.int64)
        if self._on_target is not None:
            rows = np.flatnonzero(self._on_target.holds(pairs))
            pairs = pairs.take(rows)
        keys = self._keys.of_target(pairs)
        for chosen, source_rows in self._index.candidates(keys, len(rows), only_first=self._only_first):
            target_rows = rows[chosen]
            if self._rest is not None:
                holds = self._rest.holds(Pairs(target, self._source, target_rows, source_rows))
                target_rows, source_rows = target_rows[holds], source_rows[holds]
            if len(target_rows):
                yield target_rows, source_rows

    def with_match(self, found: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """A mask of the source rows with a match; `found` are those that `matches` gave."""
        return self._index.spread(found) if self._only_first else found


class KeyIndex:
    """The source rows by key. Without keys, every row is a candidate for every other."""

    def __init__(self, columns: Sequence[pa.Array], null_safe: Sequence[bool], usable: npt.NDArray[np.bool_]) -> None:
        self._levels: list[_Level] = []
        numbered: RowNumbers | None = None
        for column, takes_null in zip(columns, null_safe, strict=True):
            level, numbered = _Level.build(column, takes_null, numbered)
            self._levels.append(level)
        codes = np.zeros(len(usable), np.int64) if numbered is None else numbered
        codes = np.where(usable, codes, -1)
        order = np.argsort(codes, kind="stable")
        self._rows = order[np.count_nonzero(codes < 0) :]
        """The source rows, grouped by code."""
        self._counts = np.bincount(codes[self._rows], minlength=self._levels[-1].size if self._levels else 1)
        self._starts = np.cumsum(self._counts) - self._counts

    def candidates(
        self, columns: Sequence[pa.Array], length: int, *, only_first: bool = False
    ) -> Iterator[tuple[RowNumbers, RowNumbers]]:
        """Pairs of rows with these keys and source rows with the same keys, or only the first of these, in blocks."""
        numbered: RowNumbers | None = None
        for column, level in zip(columns, self._levels, strict=True):
            numbered = level.encode(column, numbered)
        codes = np.zeros(length, np.int64) if numbered is None else numbered
        found = np.flatnonzero(codes >= 0)
        counts = self._counts[codes[found]]
        found, counts = found[counts > 0], counts[counts > 0]
        if only_first:
            counts[:] = 1
        ends = np.cumsum(counts)
        start = 0
        while start < len(found):
            before = ends[start - 1] if start else 0
            end = max(start + 1, int(np.searchsorted(ends, before + _BLOCK_PAIRS, side="right")))
            yield self._block(found[start:end], codes[found[start:end]], counts[start:end])
            start = end

    def spread(self, is_first: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """A mask of the source rows with the keys of the marked ones, each of which is the first with its keys."""
        used = np.flatnonzero(self._counts)
        marked = np.zeros(len(is_first), np.bool_)
        marked[self._rows] = np.repeat(is_first[self._rows[self._starts[used]]], self._counts[used])
        return marked

    def _block(self, rows: RowNumbers, codes: RowNumbers, counts: RowNumbers) -> tuple[RowNumbers, RowNumbers]:
        starts = self._starts[codes]
        if (counts == 1).all():
            return rows, self._rows[starts]
        before = np.cumsum(counts) - counts
        within = np.arange(counts.sum(), dtype=np.int64) + np.repeat(starts - before, counts)
        return np.repeat(rows, counts), self._rows[within]


@dataclass(frozen=True)
class _Level:
    """Integer codes for the values of one key, combined with the codes of the earlier keys; -1 for values that are not
    in the source."""

    values: pa.Array
    """The distinct non-null values in the source."""
    null_safe: bool
    combined: pa.Array | None
    """The combined codes in the source; None for the first key."""

    @property
    def size(self) -> int:
        """An exclusive upper bound of the codes."""
        return len(self.values) + 1 if self.combined is None else len(self.combined)

    @classmethod
    def build(cls, column: pa.Array, null_safe: bool, before: RowNumbers | None) -> tuple[_Level, RowNumbers]:
        """The level for a source key, and the codes of the source rows."""
        first = cls(column.unique().drop_null(), null_safe, None)
        joined = first._joined(column, before)
        if before is None:
            return first, joined
        level = replace(first, combined=from_numpy(joined[joined >= 0]).unique())
        return level, level.encode(column, before)

    def encode(self, column: pa.Array, before: RowNumbers | None) -> RowNumbers:
        joined = self._joined(column, before)
        return joined if self.combined is None else _indices(from_numpy(joined), self.combined)

    def _joined(self, column: pa.Array, before: RowNumbers | None) -> RowNumbers:
        own = _indices(column, self.values)
        if self.null_safe and column.null_count:
            own = np.where(to_mask(column.is_null()), len(self.values), own)
        if types.is_floating(column.type):
            own = np.where(to_mask(is_nan(column)), -1, own)
        if before is None:
            return own
        return np.where((own >= 0) & (before >= 0), before * (len(self.values) + 1) + own, -1)


def _indices(array: pa.Array, values: pa.Array) -> RowNumbers:
    """The index of each item in `values`, or -1."""
    found = pc.index_in(array, value_set=values, skip_nulls=True)
    return to_integers(pc.fill_null(found, _MISSING).cast(pa.int64()))


def is_nan(array: pa.Array) -> pa.BooleanArray:
    return pc.fill_null(pc.is_nan(array), FALSE)


def _normal(array: pa.Array) -> pa.Array:
    """Normalize keys, which are compared by their bits: -0.0 becomes 0.0."""
    return pc.add(array, scalar_of(0.0, array.type)) if types.is_floating(array.type) else array
