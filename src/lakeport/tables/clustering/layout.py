"""The columns and the curve by which `optimize` orders rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakeport.kernel.clustering import MOST_COLUMNS
from lakeport.kernel.data_files import physical_path
from lakeport.kernel.definition import TableDefinition, column_mapping_mode, problems_of_ordering
from lakeport.kernel.schema import logical_path, quoted
from lakeport.kernel.transaction import Transaction

_Path = tuple[str, ...]
_PLAIN = re.compile(r"\w*[a-zA-Z_]\w*", re.ASCII)


@dataclass(frozen=True)
class Layout:
    """An order of rows."""

    columns: tuple[_Path, ...]
    """Logical paths."""
    curve: str
    is_own: bool
    """Whether the table is clustered by these columns."""

    @property
    def names(self) -> list[str]:
        return list(map(column_name, self.columns))


def choose_layout(transaction: Transaction, zorder_by: Sequence[str], cluster_by: Sequence[str]) -> Layout | None:
    """The order in which to write rows; None keeps their order. Raises `ValueError` for columns that do not fit."""
    own = clustering_of(transaction.definition)
    given = [*_listed(zorder_by), *_listed(cluster_by)]
    if zorder_by and cluster_by:
        raise ValueError("pass zorder_by or cluster_by, not both: rows have one order")
    if not given:
        return Layout(own, "hilbert", True) if own else None
    schema = transaction.schema
    columns = tuple(tuple(f.name for f in schema.resolve(schema.path_of(name))) for name in given)
    if own and (zorder_by or columns != own):
        names = ", ".join(map(column_name, own))
        raise ValueError(
            f"the table is clustered by {names}: leave out zorder_by and cluster_by to order its rows by these "
            "columns, or change them with tables.cluster_by"
        )
    _check(transaction, columns)
    return Layout(columns, "zorder" if zorder_by else "hilbert", bool(own))


def clustering_of(definition: TableDefinition) -> tuple[_Path, ...]:
    """The columns that the table is clustered by, as logical paths."""
    mode = column_mapping_mode(definition.protocol, definition.metadata, definition.root)
    found = (logical_path(definition.schema, path, mode) for path in definition.clustering_columns)
    return tuple(path for path in found if path is not None)


def column_name(path: Iterable[str]) -> str:
    """A column's name as Delta's own writer records it: with backticks only around unusual parts."""
    return ".".join(part if _PLAIN.fullmatch(part) else quoted(part) for part in path)


def _listed(names: Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _check(transaction: Transaction, columns: Sequence[_Path]) -> None:
    schema, mode = transaction.schema, transaction.mapping_mode
    context = transaction.write_context()
    for path in columns:
        if path[0] in context.partition_columns:
            raise ValueError(f"{path[0]!r} is a partition column: its values are in separate files anyway")
    for problem in problems_of_ordering(schema, columns):
        raise ValueError(problem)
    for path in columns:
        if physical_path(schema, path, mode) not in context.stats_columns:
            raise ValueError(
                f"files have no statistics of {'.'.join(path)!r}, so no filter on it can skip one: name it in "
                "delta.dataSkippingStatsColumns, or raise delta.dataSkippingNumIndexedCols"
            )
    if len(columns) > MOST_COLUMNS:
        raise ValueError(f"rows can be ordered by at most {MOST_COLUMNS} columns, not by {len(columns)}")
