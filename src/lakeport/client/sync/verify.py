"""Whether a copy is what is shared: by its rows, and by the sizes of its files."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from lakeport.client.sync.digest import RowDigest
from lakeport.engine.reading import RowReader, read_rows
from lakeport.errors import SyncError
from lakeport.kernel.engine import StorageClient
from lakeport.kernel.scan_files import ScanFile
from lakeport.kernel.snapshot import Snapshot

_THREADS = 16


def verify_copy(copy: Snapshot, shared: Snapshot) -> int:
    """How many rows there are. Reads all rows of both. Raises `SyncError` if they differ, or if a file of the copy has
    not the size that it should have."""
    check_sizes(copy)
    mine, theirs = digest_of(copy), digest_of(shared)
    if mine != theirs:
        counts = f"{mine.rows:,} rows, and {theirs.rows:,} are shared"
        differ = counts if mine.rows != theirs.rows else f"{mine.rows:,} rows, but not those that are shared"
        raise SyncError(
            f"the copy is not what is shared: version {copy.version} has {differ} in version {shared.version}; copy "
            f"the table to another place, and ask the provider if that differs too [{copy.root}]"
        )
    return mine.rows


def check_sizes(copy: Snapshot) -> None:
    if lost := find_lost(copy.engine.storage, copy.scan_builder().build().files()):
        raise SyncError(
            f"{len(lost)} of the copy's files are gone, or have not the size that they should have; pass full=True to "
            f"fetch them again [{min(lost)}]"
        )


def find_lost(storage: StorageClient, files: Iterable[ScanFile]) -> frozenset[str]:
    """The paths of files that are not there, or not in their size."""

    def is_lost(file: ScanFile) -> bool:
        status = storage.status(file.path)
        return status is None or status.size != file.size

    listed = list(files)
    with ThreadPoolExecutor(_THREADS, "lakeport-verify") as pool:
        return frozenset(file.path for file, lost in zip(listed, pool.map(is_lost, listed), strict=True) if lost)


def digest_of(snapshot: Snapshot) -> RowDigest:
    scan = snapshot.scan_builder().build()
    digest = RowDigest()
    for batch in read_rows(snapshot.engine, RowReader.for_scan(scan), scan.files()):
        digest = digest.with_batch(batch)
    return digest
