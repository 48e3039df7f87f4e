"""The base of the plan builders for scans and changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import Any, Generic, Self, TypeVar

from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression, all_of, bind, replace_now
from lakeport.kernel.schema import StructType

_Plan = TypeVar("_Plan", covariant=True)


class PlanBuilder(ABC, Generic[_Plan]):
    """Collects the options of a plan; each `with_…` returns a new builder."""

    def __init__(self, engine: Engine, schema: StructType) -> None:
        """`schema` has all columns that can be returned or filtered on."""
        self._engine, self._whole_schema = engine, schema
        self._schema = schema
        self._filter: Expression | None = None
        self._stats = False

    def with_filter(self, predicate: Expression) -> Self:
        """Skip rows that do not satisfy the filter where possible; readers must still apply the plan's
        `remaining_filter`. Several filters are combined with AND.

        Raises `InvalidFilterError` and `UnknownColumnError`."""
        bound = bind(replace_now(predicate, self._engine.now()), self._whole_schema)
        return self._with(_filter=all_of([self._filter, bound] if self._filter is not None else [bound]))

    def with_read_schema(self, schema: StructType) -> Self:
        """The columns to return: a subset of the whole schema (see `StructType.select`), including nested fields."""
        return self._with(_schema=schema)

    def with_stats(self) -> Self:
        """Include statistics in the files."""
        return self._with(_stats=True)

    @abstractmethod
    def build(self) -> _Plan: ...

    def _with(self, **changes: Any) -> Self:
        builder = copy(self)
        builder.__dict__.update(changes)
        return builder
