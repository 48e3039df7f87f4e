"""The writing of delete files, as tasks for workers: the work grows with the deleted rows, and each file is independent
of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakeport.iceberg.delta.change import InternalDeletionVector
from lakeport.iceberg.snapshots.deletes import DeleteFile, write_position_deletes, write_puffin
from lakeport.workers import Workers, Workplace


@dataclass(frozen=True, slots=True)
class DeleteTask:
    """A delete file to write. Can be pickled."""

    vectors: tuple[InternalDeletionVector, ...]
    """Of data files of one partition, in the order of their names; one only in format version 3."""
    path: str
    """Where to, unique."""
    format_version: int


def write_deletes(workers: Workers, tasks: Sequence[DeleteTask]) -> list[DeleteFile]:
    """The files, in the order of their tasks."""
    return list(workers.map(_write, tasks)) if tasks else []


def _write(place: Workplace, task: DeleteTask) -> DeleteFile:
    if task.format_version < 3:
        return write_position_deletes(place.engine, task.vectors, task.path)
    [vector] = task.vectors
    return write_puffin(place.engine, vector, task.path)
