"""The clauses of a merge, as given and as bound to both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any
from typing import Literal as OneOf

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeport.errors import InvalidDataError
from lakeport.kernel.data_files import make_batch
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Column, Expression
from lakeport.kernel.schema import DEFAULT, GENERATION_EXPRESSION, StructField, StructType, arrow_field, parse_path
from lakeport.tables.input.assignments import Constant, Path, Value, as_stored, parse_assignments, replace_column
from lakeport.tables.merge.matching import JoinCondition, Matcher, split_condition
from lakeport.tables.merge.sides import CompiledExpression, Pairs, RowNumbers, Side, Sides
from lakeport.tables.rows.search import format_condition, parse_condition

Action = OneOf["update", "delete", "insert"]
ClauseKind = OneOf["matched", "not_matched", "not_matched_by_source"]


@dataclass(frozen=True)
class Clause:
    """An action on the rows that satisfy the condition."""

    action: Action
    condition: str | Expression | None = None
    values: Mapping[str, Any] | None = None
    """New values for the target's columns; None copies every column from the source (deletes have no values)."""

    @property
    def takes_all(self) -> bool:
        return self.values is None and self.action != "delete"

    def describe(self) -> dict[str, str]:
        """The clause as recorded in a table's history."""
        condition = {} if self.condition is None else {"predicate": format_condition(self.condition)}
        return {**condition, "actionType": self.action}


@dataclass(frozen=True)
class Clauses:
    """All clauses by kind, in order: for target rows with a match, for source rows without a match, and for target rows
    without a match."""

    matched: tuple[Clause, ...] = ()
    not_matched: tuple[Clause, ...] = ()
    not_matched_by_source: tuple[Clause, ...] = ()

    def added(self, kind: ClauseKind, clause: Clause) -> Clauses:
        """With one more clause. Raises `ValueError` if it would never apply."""
        known: tuple[Clause, ...] = getattr(self, kind)
        if known and known[-1].condition is None:
            raise ValueError(
                f"the clause before this one ({known[-1].action}) has no condition, so this one would never apply: "
                "only the last clause of a kind can be without a condition"
            )
        return replace(self, **{kind: (*known, clause)})

    def __iter__(self) -> Iterator[Clause]:
        return chain(self.matched, self.not_matched, self.not_matched_by_source)

    def describe(self) -> dict[str, list[dict[str, str]]]:
        """The clauses as recorded in a table's history."""
        return {
            "matchedPredicates": [clause.describe() for clause in self.matched],
            "notMatchedPredicates": [clause.describe() for clause in self.not_matched],
            "notMatchedBySourcePredicates": [clause.describe() for clause in self.not_matched_by_source],
        }


@dataclass(frozen=True)
class BoundClause:
    """A clause bound to both sides."""

    action: Action
    table: StructType
    """The target's columns after the merge."""
    condition: CompiledExpression | None = None
    values: Mapping[Path, Callable[[Pairs], pa.Array]] = field(default_factory=dict)
    """By target column, or by field of one."""
    source_names: tuple[str, ...] = ()
    """The source columns that the values need."""
    target_names: tuple[str, ...] = ()
    """The target columns that the values need."""

    def updated(self, rows: pa.RecordBatch, pairs: Pairs) -> pa.RecordBatch:
        """The target rows of the pairs, updated; without the generated columns that are not set: those are filled in
        later."""
        new = self._new_values(pairs)
        columns = {name: rows.column(name) for name in rows.schema.names}
        for column in self.table:
            parts = {path[1:]: value for path, value in new.items() if path[0] == column.name}
            if parts:
                before = columns.get(column.name, pa.nulls(rows.num_rows, arrow_field(column).type))
                columns[column.name] = replace_column(before, column, parts)
            elif GENERATION_EXPRESSION in column.metadata:
                columns.pop(column.name, None)
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def inserted(self, pairs: Pairs) -> pa.RecordBatch:
        """New rows, with the columns that have values."""
        columns = {path[0]: value for path, value in self._new_values(pairs).items()}
        schema = pa.schema([pa.field(name, column.type) for name, column in columns.items()])
        return make_batch(list(columns.values()), schema, len(pairs))

    def _new_values(self, pairs: Pairs) -> dict[Path, pa.Array]:
        return {path: value(pairs) for path, value in self.values.items()}


def choose(clauses: Sequence[BoundClause], pairs: Pairs) -> RowNumbers:
    """For each pair, the index of the first clause whose condition holds, or -1. Evaluates a condition only where no
    earlier one holds."""
    chosen = np.full(len(pairs), -1, np.int64)
    for number, clause in enumerate(clauses):
        left = np.flatnonzero(chosen < 0)
        if clause.condition is None:
            chosen[left] = number
        elif len(left):
            holds = clause.condition.holds(pairs if len(left) == len(pairs) else pairs.take(left))
            chosen[left[holds]] = number
    return chosen


@dataclass(frozen=True, eq=False)
class BoundMerge:
    """A merge bound to both sides, with all rows of its source."""

    definition: MergeDefinition
    sides: Sides
    source: pa.RecordBatch
    on: Expression
    matched: list[BoundClause]
    not_matched: list[BoundClause]
    not_matched_by_source: list[BoundClause]

    @property
    def on_target(self) -> list[BoundClause]:
        """The clauses for target rows, by number."""
        return [*self.matched, *self.not_matched_by_source]

    @cached_property
    def is_update(self) -> npt.NDArray[np.bool_]:
        """Of the clauses for target rows, which are updates."""
        return np.array([clause.action == "update" for clause in self.on_target], np.bool_)

    @cached_property
    def sets(self) -> frozenset[str]:
        """The target columns that updates set."""
        return frozenset(path[0] for clause in self._updates for path in clause.values)

    @cached_property
    def reads(self) -> frozenset[str]:
        """The target columns that updates compute new values from, or that not all of them set as a whole."""
        kept = {name for clause in self._updates for name in self.sets - {p[0] for p in clause.values if len(p) == 1}}
        return frozenset(kept.union(*(clause.target_names for clause in self._updates)))

    @property
    def _updates(self) -> list[BoundClause]:
        return [clause for clause in self.on_target if clause.action == "update"]

    @property
    def may_match_repeatedly(self) -> bool:
        """Whether several source rows may match a target row: deleting twice is the same as once."""
        return [(clause.action, clause.condition is None) for clause in self.matched] == [("delete", True)]

    @cached_property
    def condition(self) -> JoinCondition:
        return split_condition(self.on, self.sides)

    @cached_property
    def matcher(self) -> Matcher:
        one_suffices = not self.matched or self.may_match_repeatedly
        return Matcher(self.sides, self.condition, self.source, one_suffices=one_suffices)

    def over(self, source: pa.RecordBatch) -> BoundMerge:
        """The same merge with these rows as its source."""
        return replace(self, source=source)


@dataclass(frozen=True)
class MergeDefinition:
    """A merge as given; picklable."""

    target: Side
    source: Side
    table: StructType
    """The target's columns after the merge."""
    now: int
    """The statement's time in milliseconds since the epoch."""
    merge_schema: bool
    on: str | Expression
    clauses: Clauses

    def bind(self, engine: Engine, rows: pa.RecordBatch) -> BoundMerge:
        """Bind the clauses to both sides; `rows` are those of the source.

        Raises `InvalidFilterError`, `UnknownColumnError`, `InvalidDataError` for values that cannot be set, and
        `ValueError` if both sides share an alias."""
        sides, target, source = Sides(engine, self.target, self.source), self.target, self.source
        condition = parse_condition(self.on, self.now)
        if condition is None:
            raise ValueError("a merge needs a condition for rows to match")
        return BoundMerge(
            self,
            sides,
            rows,
            sides.bind_condition(condition, target, source),
            [self._bound(clause, sides, (target, source)) for clause in self.clauses.matched],
            [self._bound(clause, sides, (source,)) for clause in self.clauses.not_matched],
            [self._bound(clause, sides, (target,)) for clause in self.clauses.not_matched_by_source],
        )

    def _bound(self, clause: Clause, sides: Sides, visible: Sequence[Side]) -> BoundClause:
        parsed = parse_condition(clause.condition, self.now)
        condition = None if parsed is None else sides.compile(sides.bind_condition(parsed, *visible))
        if clause.action == "delete":
            return BoundClause("delete", self.table, condition)
        given = self._all_values(clause.action) if clause.values is None else self._values(clause)
        names: list[str] = []
        target_names: list[str] = []

        def compiled(column: StructField, value: Value) -> Callable[[Pairs], pa.Array]:
            if isinstance(value, Constant):
                return lambda pairs: value.repeat(len(pairs))
            bound = as_stored(sides.bind_value(value, *visible), sides.schema, column.type)
            names.extend(self.source.names_in([bound]))
            target_names.extend(self.target.names_in([bound]))
            return sides.compile(bound).values

        values = {path: compiled(self.table.resolve(path)[-1], value) for path, value in given.items()}
        source_names, table_names = tuple(dict.fromkeys(names)), tuple(dict.fromkeys(target_names))
        return BoundClause(clause.action, self.table, condition, values, source_names, table_names)

    def _values(self, clause: Clause) -> dict[Path, Value]:
        given = {self._without_alias(name): value for name, value in (clause.values or {}).items()}
        found = parse_assignments(self.table, given, self.now)
        if clause.action == "insert" and (nested := next((path for path in found if len(path) > 1), None)):
            name = ".".join(nested)
            raise InvalidDataError(f"{name!r} is a field of a struct: insert the whole {nested[0]!r}", column=name)
        return found

    def _without_alias(self, name: str) -> str:
        alias, dot, rest = name.partition(".")
        is_alias = alias.strip("`").lower() == self.target.alias.lower()
        return rest if dot and is_alias and self.table.find(parse_path(rest)[0]) else name

    def _all_values(self, action: Action) -> dict[Path, Value]:
        shared = [(f.name, other.name) for f in self.table if (other := self.source.schema.find(f.name))]
        found: dict[Path, Value] = {(name,): Column((self.source.alias, other)) for name, other in shared}
        may_lack = {GENERATION_EXPRESSION, DEFAULT} if action == "insert" else {GENERATION_EXPRESSION}
        missing = [f.name for f in self.table if (f.name,) not in found and not may_lack & f.metadata.keys()]
        if missing and not self.merge_schema:
            raise InvalidDataError(
                f"{action}_all needs every column of the table, but the source lacks {', '.join(missing)}: set the "
                "columns explicitly, or pass merge_schema=True",
                column=missing[0],
            )
        return found
