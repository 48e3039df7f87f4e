"""Shared by all table operations: opening the table, committing, and the result."""

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
from lakeport.kernel.transaction import Committed, Transaction, update_table

StorageOptions = Mapping[str, Any] | None
Progress = Callable[[int, int], object]
"""Called now and then with the work done and the total."""
_VERSIONS = 2**63
"""Application versions are less: the log stores signed 64-bit integers."""


@dataclass(frozen=True)
class Result:
    """The outcome of an operation. `version` is the one it created, or the current one if nothing had to be done."""

    version: int
    metrics: Mapping[str, int] = field(default_factory=dict)


def engine_for(engine: Engine | None, storage_options: StorageOptions) -> Engine:
    return engine or default_engine(storage_options)


def table_at(target: str, engine: Engine | None, storage_options: StorageOptions) -> Table:
    """The table at a path or URL, which need not exist yet. Raises `ValueError` for anything else."""
    return Table.for_path(engine_for(engine, storage_options), parse_target(target))


def open_snapshot(target: str, engine: Engine | None, storage_options: StorageOptions) -> Snapshot:
    """The latest version of the table. Raises `TableNotFoundError`."""
    return table_at(target, engine, storage_options).latest_snapshot()


def begin_unless_done(
    snapshot: Snapshot, operation: str, application: tuple[str, int] | None = None
) -> Transaction | None:
    """Begin a transaction; None if the table already has the application's work up to this version.

    Raises `ValueError` unless the application is a name and a number."""
    transaction = update_table(snapshot, operation)
    return transaction if application is None or record_application(transaction, application) else None


def snapshot_of(transaction: Transaction) -> Snapshot:
    """The version that a transaction on an existing table has read."""
    assert transaction.snapshot is not None, "a new table has no rows"
    return transaction.snapshot


def record_application(transaction: Transaction, application: tuple[str, int]) -> bool:
    """Record the application's version in the transaction; false if the table already has it."""
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
        f"an application must be a name and a number from 0 to 2**63 - 1, as ('nightly', 42), not {given!r:.80}"
    )


def _is_version(number: Any) -> bool:
    try:
        return not isinstance(number, bool) and 0 <= index(number) < _VERSIONS
    except TypeError:
        return False


def finish(transaction: Transaction, written: Sequence[str] = ()) -> Result:
    """Commit, then run the post-commit work. Commits nothing if nothing changed. If the commit definitely failed,
    deletes the files written for it, given by path."""
    return result_of(transaction, commit(transaction, written))


def result_of(transaction: Transaction, committed: Committed | None) -> Result:
    version = snapshot_of(transaction).version if committed is None else committed.version
    return Result(version, dict(transaction.metrics))


def commit(transaction: Transaction, written: Sequence[str] = ()) -> Committed | None:
    """See `finish`; None if nothing changed."""
    if transaction.changes_nothing and transaction.snapshot is not None:
        return None
    try:
        committed = transaction.commit()
    except Exception as error:
        if has_surely_failed(error):
            discard(transaction.engine, written)
        raise
    finish_commit(transaction.engine, committed, transaction.snapshot)
    return committed


def has_surely_failed(error: BaseException | None) -> bool:
    """Whether a commit that raised this error definitely did not land. An interrupted one may have."""
    return isinstance(error, Exception) and not isinstance(error, CommitUnknownError)


def paths_of(root: str, adds: Iterable[Add]) -> list[str]:
    return [resolve_path(root, add.path) for add in adds]


def discard(engine: Engine, paths: Sequence[str]) -> None:
    """Delete uncommitted files. Ignores storage errors so as not to hide the original one; vacuum finds leftovers."""
    with suppress(StorageError):
        engine.storage.delete(paths)
