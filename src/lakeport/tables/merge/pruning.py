"""A filter that every target row with a match satisfies, from the source's keys: it skips files and row groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lakeport.kernel.expressions import FLOATS, And, Cast, Column, Expression, In, Literal, all_of, rewrite, type_of
from lakeport.kernel.values import python_value
from lakeport.tables.merge.matching import JoinCondition, Key, is_nan
from lakeport.tables.merge.sides import Sides

_FEW_KEYS = 100
"""Up to this many source keys are looked up one by one in file statistics."""
_SAMPLE = 1 << 10
_NOTHING = Literal(False)


@dataclass(frozen=True)
class SeenKeys:
    """The values of a key in the source, or only their bounds if there are many."""

    values: pa.Array
    """Distinct, without nulls and NaN."""
    are_bounds: bool = False
    has_null: bool = False

    @classmethod
    def of(cls, column: pa.Array) -> SeenKeys:
        known = column.drop_null()
        if types.is_floating(known.type):
            known = known.filter(pc.invert(is_nan(known)))
        return cls._of_known(known, False, bool(column.null_count))

    @classmethod
    def _of_known(cls, known: pa.Array, are_bounds: bool, has_null: bool) -> SeenKeys:
        few = not are_bounds and len(known.slice(0, _SAMPLE).unique()) <= _FEW_KEYS
        if few and len(distinct := known.unique()) <= _FEW_KEYS:
            return cls(distinct, False, has_null)
        bounds = pc.min_max(known)
        return cls(pa.concat_arrays([pa.repeat(bounds[name], 1) for name in ("min", "max")]), True, has_null)

    def __or__(self, other: SeenKeys) -> SeenKeys:
        known = pa.concat_arrays([self.values, other.values])
        return self._of_known(known, self.are_bounds or other.are_bounds, self.has_null or other.has_null)

    def holds_for(self, column: Column) -> Expression:
        """A filter on a column with one of these values."""
        if not len(self.values):
            return _NOTHING
        values = [python_value(value) for value in self.values]
        if self.are_bounds:
            return And(column >= values[0], column <= values[-1])
        return In(column, tuple(map(Literal, values)))


def target_filter(sides: Sides, condition: JoinCondition, source_keys: Sequence[SeenKeys]) -> Expression | None:
    """A filter on the target that holds for every row with a match. None if nothing is known."""
    parts = [] if condition.target_only is None else [_own_terms(condition.target_only)]
    for key, seen in zip(condition.keys, source_keys, strict=True):
        if (part := _key_filter(key, seen, sides)) is not None:
            parts.append(part)
    return all_of(parts)


def _own_terms(bound: Expression) -> Expression:
    def strip(node: Expression) -> Expression:
        return Column(node.path[1:]) if isinstance(node, Column) else node

    return rewrite(bound, strip)


def _key_filter(key: Key, seen: SeenKeys, sides: Sides) -> Expression | None:
    column = _pruning_column(key, sides)
    if column is None:
        return None
    found = seen.holds_for(column)
    return found | column.is_null() if key.null_safe and seen.has_null else found


def _pruning_column(key: Key, sides: Sides) -> Column | None:
    """The column whose statistics can prune files. An exact number compared as a double may equal a different number,
    so its bounds prove nothing."""
    match key.target:
        case Column(path):
            return Column(path[1:])
        case Cast(Column(path), _) if type_of(key.target, sides.schema) not in FLOATS:
            return Column(path[1:])
    return None
