"""Work after a commit: checksum, checkpoint, log cleanup. The commit is valid without it, so nothing here raises."""

from __future__ import annotations

import logging

from lakeport.kernel.definition import CHECKPOINT_INTERVAL
from lakeport.kernel.engine import Engine, FileStatus
from lakeport.kernel.log import Checksum, checksum_path, next_checksum, read_checksum, write_checksum
from lakeport.kernel.maintenance.checkpoint_writer import write_checkpoint
from lakeport.kernel.maintenance.log_cleanup import clean_up_log
from lakeport.kernel.snapshot import Snapshot, Table
from lakeport.kernel.transaction import Committed

_log = logging.getLogger(__name__)


def finish_commit(engine: Engine, committed: Committed, read: Snapshot | None = None) -> None:
    """Write the version's checksum and, at the table's interval, a checkpoint; then delete expired log files. `read` is
    the transaction's base snapshot, which saves rereading the log."""
    root, version = committed.definition.root, committed.version
    try:
        if (checksum := _checksum(engine, committed, read)) is not None:
            write_checksum(engine, root, version, checksum)
        if version and version % CHECKPOINT_INTERVAL.of(committed.definition.metadata.configuration) == 0:
            snapshot = Table.for_path(engine, root).latest_snapshot() if read is None else read.refresh()
            write_checkpoint(engine, snapshot)
            clean_up_log(engine, snapshot)
    except Exception as error:  # raising would make callers repeat a finished commit
        _log.warning("version %d is committed, but maintenance after it failed: %s", version, error, exc_info=True)


def _checksum(engine: Engine, committed: Committed, read: Snapshot | None) -> Checksum | None:
    definition = committed.definition
    return next_checksum(
        _previous_checksum(engine, committed, read),
        committed.version,
        committed.adds,
        committed.removes,
        protocol=definition.protocol,
        metadata=definition.metadata,
        transactions=committed.applications.values(),
        domains=committed.domains.values(),
        txn_id=committed.info.get("txnId"),
        in_commit_timestamp=committed.info.get("inCommitTimestamp"),
    )


def _previous_checksum(engine: Engine, committed: Committed, read: Snapshot | None) -> Checksum | None:
    """The previous version's checksum; None if a file is re-added, which the totals would count twice."""
    if not committed.removes and any(not add.data_change for add in committed.adds):
        return None
    if read is not None and read.version == committed.version - 1:
        return read.checksum
    path = checksum_path(committed.definition.root, committed.version - 1)
    return read_checksum(engine, FileStatus(path, 0)) if committed.version else None
