"""What all operations on tables share: opening the table, committing, and what they return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import index
from typing import Any

from lakeport.engine import default_engine
from lakeport.errors import CommitUnknownError, StorageError
from lakeport.kernel.actions import Add
from lakeport.kernel.engine import Engine
from lakeport.kernel.maintenance import finish_commit
from lakeport.kernel.paths import parse_target, resolve_path
from lakeport.kernel.snapshot import Snapshot, Table
from lakeport.kernel.transaction import Transaction, update_table

StorageOptions = Mapping[str, Any] | None
Progress = Callable[[int, int], object]
"""Told now and then how much is done, and of how much."""
_VERSIONS = 2**63
"""Versions of applications are less: the log has them as signed 64-bit integers."""


@dataclass(frozen=True)
class Result:
    """What an operation did. `version` is the version that it made, or found where there was nothing to do."""

    version: int
    metrics: Mapping[str, int] = field(default_factory=dict)


def engine_for(engine: Engine | None, storage_options: StorageOptions) -> Engine:
    return engine or default_engine(storage_options)


def table_at(target: str, engine: Engine | None, storage_options: StorageOptions) -> Table:
    """The table at a path or a URL, which need not exist yet. Raises `ValueError` for what is neither."""
    return Table.for_path(engine_for(engine, storage_options), parse_target(target))


def open_snapshot(target: str, engine: Engine | None, storage_options: StorageOptions) -> Snapshot:
    """The latest version of the table. Raises `TableNotFoundError`."""
    return table_at(target, engine, storage_options).latest_snapshot()


def begin(snapshot: Snapshot, operation: str, application: tuple[str, int] | None = None) -> Transaction | None:
    """A transaction on the table; None if the application's work of this version is already in it.

    Raises `ValueError` for an application that is not a name and a number."""
    transaction = update_table(snapshot, operation)
    return transaction if application is None or claim(transaction, application) else None


def claim(transaction: Transaction, application: tuple[str, int]) -> bool:
    """Makes a transaction the application's work of this version; false if that is already in the table."""
    app_id, version = _parse_application(application)
    done = transaction.application_version(app_id)
    if done is not None and done >= version:
        return False
    transaction.set_application_version(app_id, version)
    return True


def _parse_application(given: Any) -> tuple[str, int]:
    match given:
        case (str(name), number) if name and _is_version(number):
            return name, index(number)
    raise ValueError(
        f"an application is a name and a number from 0 to 2**63 - 1, as ('nightly', 42), not {given!r:.80}"
    )


def _is_version(number: Any) -> bool:
    try:
        return not isinstance(number, bool) and 0 <= index(number) < _VERSIONS
    except TypeError:
        return False


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
