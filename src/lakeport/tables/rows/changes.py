"""`RowChanges`: what an operation does to the rows of a table, as a value that `execute` carries out.

RowChanges(
    [FileChange(file, updated=positions, update=update), FileChange(other, deleted=positions)],
    inserts=[Inserted(rows)],
    metrics=…,
)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa

from lakeport.kernel.engine import Engine
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.schema import StructType
from lakeport.tables.rows.output import Inserted, Positions, Updated, WrittenRows


def _no_rows() -> Positions:
    return np.zeros(0, dtype=np.uint64)


class RowUpdate(Protocol):
    """Computes the new values of a file's updated rows; picklable."""

    @property
    def sets(self) -> frozenset[str]:
        """The columns, at the top level, whose values it may set."""

    @property
    def reads(self) -> frozenset[str]:
        """The columns of the table, at the top level, that new values are computed from, or that not all rows get."""

    def open(self, engine: Engine, columns: StructType) -> Callable[[pa.RecordBatch], Iterator[Updated]]:
        """A function of rows to update; each of them is in one of the results. The rows have `ROW_POSITION` and these
        columns of the table, among them those of `reads`."""


@dataclass(frozen=True, eq=False)
class FileChange:
    """Rows of a file to change, by position; None means every row not yet deleted."""

    file: ScanFile
    """With its log details."""
    deleted: Positions | None = field(default_factory=_no_rows)
    updated: Positions | None = field(default_factory=_no_rows)
    """Disjoint from `deleted`."""
    update: RowUpdate | None = None
    """Given if rows are updated."""

    @property
    def deletes_rows(self) -> bool:
        return self.deleted is None or bool(len(self.deleted))

    @property
    def updates_rows(self) -> bool:
        return self.updated is None or bool(len(self.updated))

    @cached_property
    def is_whole(self) -> bool:
        """Whether every row is deleted or updated."""
        if self.deleted is None or self.updated is None:
            return True
        return len(self.deleted) + len(self.updated) == self.file.num_records

    @property
    def gone(self) -> Positions:
        """The rows to mark as deleted if others stay."""
        assert self.deleted is not None, "a file that loses every row needs no vector"
        assert self.updated is not None, "a file that loses every row needs no vector"
        return np.sort(np.concatenate([self.deleted, self.updated]))


@dataclass(frozen=True)
class ChangeCounts:
    """The totals of row changes."""

    deleted_rows: int | None
    """None if a file was removed unread and its statistics lack the count."""
    updated_rows: int
    inserted_rows: int
    copied_rows: int
    removed_files: int
    removed_bytes: int
    added_files: int
    added_bytes: int
    change_files: int
    vectors_added: int
    vectors_updated: int
    vectors_removed: int

    @property
    def deletions(self) -> dict[str, int]:
        """The deleted rows, if known, under Spark's name."""
        return {} if self.deleted_rows is None else {"numDeletedRows": self.deleted_rows}

    @property
    def metrics(self) -> dict[str, int]:
        """Everything except deleted, updated and inserted rows, under Spark's names."""
        return {
            "numCopiedRows": self.copied_rows,
            "numRemovedFiles": self.removed_files,
            "numRemovedBytes": self.removed_bytes,
            "numAddedFiles": self.added_files,
            "numAddedBytes": self.added_bytes,
            "numAddedChangeFiles": self.change_files,
            "numDeletionVectorsAdded": self.vectors_added,
            "numDeletionVectorsUpdated": self.vectors_updated,
            "numDeletionVectorsRemoved": self.vectors_removed,
        }


@dataclass(frozen=True)
class RowChanges:
    """Changes to rows. `execute` iterates once over the files, then once over the inserts."""

    files: Iterable[FileChange]
    """At most one for each file."""
    inserts: Iterable[Inserted] = ()
    written: WrittenRows = field(default_factory=WrittenRows)
    """Inserted rows that are in files already. Their change files are needed if the table has a change data feed and
    no deletion vectors, and a changed file keeps rows."""
    constraints: Mapping[str, str] = field(default_factory=dict)
    """Conditions on new rows besides those of the table, by name."""
    metrics: Callable[[ChangeCounts], Mapping[str, int]] = lambda counts: counts.metrics
    """The metrics of the commit."""
