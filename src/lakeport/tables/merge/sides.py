"""The two sides of a merge: expressions over target rows next to source rows.

`target.id` and `source.id` are fields of two structs named by the aliases; a name without an alias belongs to the only
visible side that has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeport.errors import InvalidFilterError, UnknownColumnError
from lakeport.kernel.data_files import make_batch
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Column, Expression, bind, bind_value, columns_in, rewrite
from lakeport.kernel.schema import StructField, StructType, arrow_field
from lakeport.kernel.values import from_numpy, to_mask
from lakeport.kernel.write import RowName

RowNumbers = npt.NDArray[np.int64]
"""Row numbers."""


@dataclass(frozen=True)
class Side:
    """A table under its alias."""

    alias: str
    schema: StructType

    def is_in(self, bound: Expression) -> bool:
        """Whether a bound expression uses this side."""
        return any(column.path[0] == self.alias for column in columns_in(bound))

    def names_in(self, bounds: Sequence[Expression]) -> tuple[str, ...]:
        """The columns of this side that bound expressions use."""
        columns = (column.path for bound in bounds for column in columns_in(bound))
        return tuple(dict.fromkeys(path[1] for path in columns if path[0] == self.alias))


@dataclass(frozen=True)
class Pairs:
    """Target rows paired with source rows, one to one. A side is None if absent; row numbers are None for all rows."""

    target: pa.RecordBatch | None
    source: pa.RecordBatch | None
    target_rows: RowNumbers | None = None
    source_rows: RowNumbers | None = None
    source_numbers: RowNumbers | None = None
    """The numbers of the rows in the whole source, if `source` is only a part of it."""

    def __len__(self) -> int:
        side, rows = (self.source, self.source_rows) if self.target is None else (self.target, self.target_rows)
        assert side is not None, "pairs have a side"
        return side.num_rows if rows is None else len(rows)

    def take(self, chosen: RowNumbers) -> Pairs:
        """Some of the pairs."""
        target = None if self.target is None else chosen if self.target_rows is None else self.target_rows[chosen]
        source = None if self.source is None else chosen if self.source_rows is None else self.source_rows[chosen]
        return Pairs(self.target, self.source, target, source, self.source_numbers)

    def name_row(self, pair: int) -> RowName:
        """Name a pair by its source row."""
        row = pair if self.source_rows is None else int(self.source_rows[pair])
        return name_source_row(row if self.source_numbers is None else int(self.source_numbers[row]))


def name_source_row(row: int) -> RowName:
    return RowName(f"row {row} of the source", row)


@dataclass(frozen=True)
class Sides:
    """The target and the source."""

    engine: Engine
    target: Side
    source: Side

    def __post_init__(self) -> None:
        if self.target.alias.lower() == self.source.alias.lower():
            raise ValueError(f"the source and the target need different aliases, not both {self.target.alias!r}")

    @property
    def schema(self) -> StructType:
        return StructType(tuple(StructField(side.alias, side.schema) for side in (self.target, self.source)))

    def bind_condition(self, condition: Expression, *visible: Side) -> Expression:
        """Raises `InvalidFilterError` and `UnknownColumnError`; only columns of visible sides are allowed."""
        return bind(self._qualified(condition, visible), self.schema)

    def bind_value(self, value: Expression, *visible: Side) -> Expression:
        return bind_value(self._qualified(value, visible), self.schema)

    def _qualified(self, expression: Expression, visible: Sequence[Side]) -> Expression:
        def qualify(node: Expression) -> Expression:
            return self._qualified_column(node, visible) if isinstance(node, Column) else node

        return rewrite(expression, qualify)

    def _qualified_column(self, column: Column, visible: Sequence[Side]) -> Column:
        first, name = column.path[0], ".".join(column.path)
        for side in (self.target, self.source):
            if len(column.path) > 1 and side.alias.lower() == first.lower() and side.schema.find(column.path[1]):
                if side not in visible:
                    raise InvalidFilterError(
                        f"{name} cannot be used here: this clause can use only columns of {visible[0].alias}"
                    )
                return Column((side.alias, *column.path[1:]))
        owners = [side for side in visible if side.schema.find(first)]
        if len(owners) > 1:
            raise InvalidFilterError(
                f"{name} is ambiguous: write {' or '.join(f'{side.alias}.{name}' for side in owners)}"
            )
        if not owners:
            known = "; ".join(f"{side.alias} has {', '.join(side.schema.names)}" for side in visible)
            raise UnknownColumnError(f"unknown column {name!r}: {known}", column=name)
        return Column((owners[0].alias, *column.path))

    def compile(self, bound: Expression) -> CompiledExpression:
        return CompiledExpression(self, bound)


class CompiledExpression:
    """A bound expression over pairs; materializes only the columns it uses."""

    def __init__(self, sides: Sides, bound: Expression) -> None:
        self.target_names = sides.target.names_in([bound])
        """The target columns it needs."""
        fields = []
        self._names: list[tuple[bool, tuple[str, ...]]] = []
        for side in (sides.target, sides.source):
            if names := side.names_in([bound]):
                columns = [arrow_field(side.schema.resolve((name,))[0]).with_nullable(True) for name in names]
                fields.append(pa.field(side.alias, pa.struct(columns)))
                self._names.append((side is sides.target, names))
        self._schema = pa.schema(fields)
        self._evaluate = sides.engine.expressions.evaluator(self._schema, bound)

    def values(self, pairs: Pairs) -> pa.Array:
        """The value for each pair."""
        columns = [
            _struct(pairs.target, pairs.target_rows, names, field.type)
            if is_target
            else _struct(pairs.source, pairs.source_rows, names, field.type)
            for (is_target, names), field in zip(self._names, self._schema, strict=True)
        ]
        return self._evaluate(make_batch(columns, self._schema, len(pairs)))

    def holds(self, pairs: Pairs) -> npt.NDArray[np.bool_]:
        """A mask of the pairs for which the condition is true, not false or null."""
        return to_mask(self.values(pairs))


def _struct(
    rows: pa.RecordBatch | None, chosen: RowNumbers | None, names: tuple[str, ...], data_type: pa.DataType
) -> pa.StructArray:
    assert rows is not None, "a bound expression only mentions sides that are there"
    columns = [rows.column(name) for name in names]
    if chosen is not None:
        indices = from_numpy(chosen)
        columns = [column.take(indices) for column in columns]
    return pa.StructArray.from_arrays(columns, fields=list(data_type))
