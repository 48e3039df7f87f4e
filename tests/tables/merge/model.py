"""MERGE in plain Python: every row of the target with every row of the source, one clause after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakeport.kernel.expressions import Expression
from lakeport.tables import Merge
from lakeport.testing.rowwise import by_row

Row = dict[str, Any]


@dataclass(frozen=True)
class ModelClause:
    """`values` are expressions over `target` and `source`, by column."""

    action: str
    condition: Expression | None = None
    values: Mapping[str, Expression] = field(default_factory=dict)

    def applies(self, row: Row) -> bool:
        return self.condition is None or by_row(self.condition, row) is True

    def new(self, row: Row) -> Row:
        return {name: by_row(value, row) for name, value in self.values.items()}


@dataclass(frozen=True)
class MergeModel:
    on: Expression
    matched: Sequence[ModelClause] = ()
    not_matched: Sequence[ModelClause] = ()
    by_source: Sequence[ModelClause] = ()

    def on_table(self, merge: Merge) -> Merge:
        """The same clauses for a real merge."""
        for clause in self.matched:
            if clause.action == "delete":
                merge = merge.when_matched_delete(clause.condition)
            else:
                merge = merge.when_matched_update(clause.values, clause.condition)
        for clause in self.not_matched:
            merge = merge.when_not_matched_insert(clause.values, clause.condition)
        for clause in self.by_source:
            if clause.action == "delete":
                merge = merge.when_not_matched_by_source_delete(clause.condition)
            else:
                merge = merge.when_not_matched_by_source_update(clause.values, clause.condition)
        return merge

    def run(self, target: Sequence[Row], source: Sequence[Row]) -> Outcome | None:
        """None if a row of the target is changed by several rows of the source."""
        outcome = Outcome()
        unmatched = [True] * len(source)
        for row in target:
            partners = [i for i, other in enumerate(source) if by_row(self.on, _pair(row, other)) is True]
            for i in partners:
                unmatched[i] = False
            pairs = [_pair(row, source[i]) for i in partners] if partners else [{"target": row}]
            clauses = self.matched if partners else self.by_source
            todo = [(clause, pair) for pair in pairs if (clause := _first(clauses, pair)) is not None]
            if len(todo) > 1 and not self._only_deletes:
                return None
            outcome.change(row, *(todo[0] if todo else (None, {})))
        for other in (other for other, free in zip(source, unmatched, strict=True) if free):
            if (clause := _first(self.not_matched, {"source": other})) is not None:
                blank = dict.fromkeys(target[0] if target else clause.values)
                outcome.inserted.append(blank | clause.new({"source": other}))
        return outcome

    @property
    def _only_deletes(self) -> bool:
        return [(c.action, c.condition is None) for c in self.matched] == [("delete", True)]


@dataclass
class Outcome:
    """What is left, and what changed."""

    kept: list[Row] = field(default_factory=list)
    deleted: list[Row] = field(default_factory=list)
    before: list[Row] = field(default_factory=list)
    after: list[Row] = field(default_factory=list)
    inserted: list[Row] = field(default_factory=list)

    @property
    def rows(self) -> list[Row]:
        return [*self.kept, *self.after, *self.inserted]

    @property
    def changes(self) -> dict[str, list[Row]]:
        return {
            "delete": self.deleted,
            "insert": self.inserted,
            "update_preimage": self.before,
            "update_postimage": self.after,
        }

    def change(self, row: Row, clause: ModelClause | None, pair: Row) -> None:
        if clause is None:
            self.kept.append(row)
        elif clause.action == "delete":
            self.deleted.append(row)
        else:
            self.before.append(row)
            self.after.append(row | clause.new(pair))


def _pair(target: Row, source: Row) -> Row:
    return {"target": target, "source": source}


def _first(clauses: Sequence[ModelClause], row: Row) -> ModelClause | None:
    return next((clause for clause in clauses if clause.applies(row)), None)
