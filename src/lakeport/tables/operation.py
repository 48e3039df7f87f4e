"""What all operations on tables share: opening the table, committing, and what they return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lakeport.engine import default_engine
from lakeport.errors import CommitUnknownError, StorageError
from lakeport.kernel.actions import Add
from lakeport.kernel.engine import Engine
from lakeport.kernel.paths import resolve_path
from lakeport.kernel.post_commit import finish_commit
from lakeport.kernel.snapshot import Snapshot, Table
from lakeport.kernel.transaction import Transaction, update_table

StorageOptions = Mapping[str, Any] | None
Progress = Callable[[int, int], object]
"""Told now and then how much is done, and of how much."""


@dataclass(frozen=True)
class Result:
    """What an operation did. `version` is the version that it made, or found where there was nothing to do."""

    version: int
    metrics: Mapping[str, int] = field(default_factory=dict)


def engine_for(engine: Engine | None, storage_options: StorageOptions) -> Engine:
    return engine or default_engine(storage_options)


def open_snapshot(target: str, engine: Engine | None, storage_options: StorageOptions) -> Snapshot:
    """The latest version of the table. Raises `TableNotFoundError`."""
    return Table.for_path(engine_for(engine, storage_options), str(target)).latest_snapshot()


def begin(snapshot: Snapshot, operation: str, application: tuple[str, int] | None = None) -> Transaction | None:
    """A transaction on the table; None if the application's work of this version is already in it."""
    transaction = update_table(snapshot, operation)
    if application is not None:
        app_id, version = application
        done = transaction.application_version(app_id)
        if done is not None and done >= version:
            return None
        transaction.set_application_version(app_id, version)
    return transaction


def finish(transaction: Transaction, written: Iterable[Add] = ()) -> Result:
    """Commits, and does what follows a commit. Where nothing is changed, nothing is committed. If the commit fails for
    sure, the files that were written for it go."""
    metrics = dict(transaction.metrics)
    if transaction.changes_nothing and transaction.snapshot is not None:
        return Result(transaction.snapshot.version, metrics)
    try:
        committed = transaction.commit()
    except Exception as error:
        if has_surely_failed(error):
            discard(transaction.engine, [resolve_path(transaction.root, add.path) for add in written])
        raise
    finish_commit(transaction.engine, committed, transaction.snapshot)
    return Result(committed.version, metrics)


def has_surely_failed(error: BaseException | None) -> bool:
    """Whether a commit that raised this is not a version of the table. One that was interrupted may be."""
    return isinstance(error, Exception) and not isinstance(error, CommitUnknownError)


def discard(engine: Engine, paths: Sequence[str]) -> None:
    """Removes files that no commit names. What made them useless is the news: vacuum finds what stays."""
    with suppress(StorageError):
        engine.storage.delete(paths)
