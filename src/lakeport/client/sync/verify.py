"""Verify a copy against the share, byte for byte."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakeport.client.sync.fetch import AT_ONCE, pieces_of
from lakeport.client.sync.plan import Live, Wanted
from lakeport.errors import SyncError
from lakeport.kernel.deletion_vectors import read_bitmap
from lakeport.kernel.engine import StorageClient
from lakeport.kernel.scan import ScanFile
from lakeport.workers.ordered import map_ordered

_THREADS = 16


def verify_copy(mine: StorageClient, root: str, live: Live, theirs: StorageClient, shared: Sequence[Wanted]) -> int:
    """The number of files in the copy at `root`. Reads all bytes of both. Raises `SyncError` if they differ."""
    if lost := find_lost(mine, live.values()):
        raise SyncError(
            f"{len(lost)} of the copy's files are missing or have the wrong size; pass full=True to "
            f"fetch them again [{min(lost)}]"
        )
    wanted = {one.key: one for one in shared}
    if others := wanted.keys() ^ live.keys():
        raise _difference(f"files in the copy or in the share, but not in both: {len(others)}", root)

    def check(one: Wanted) -> None:
        if not _is_equal(mine, root, live[one.key], theirs, one):
            raise _difference("file contents differ", live[one.key].path)

    for _ in map_ordered(check, shared, AT_ONCE, "verify"):
        pass
    return len(wanted)


def _is_equal(mine: StorageClient, root: str, file: ScanFile, theirs: StorageClient, wanted: Wanted) -> bool:
    other = wanted.file
    if file.size != other.size or file.partition_values != other.partition_values:
        return False
    pairs = zip(pieces_of(mine, file.path, file.size), pieces_of(theirs, other.path, other.size), strict=True)
    if any(piece != same for piece, same in pairs):
        return False
    if file.deletion_vector is None or other.deletion_vector is None:
        return file.deletion_vector is other.deletion_vector
    deleted = read_bitmap(file.deletion_vector, file.deletion_vector.location(root), mine)
    return deleted == read_bitmap(other.deletion_vector, wanted.vector_path, theirs)


def _difference(what: str, path: str) -> SyncError:
    return SyncError(
        f"the copy differs from the share: {what}; copy the table to another place, and ask the provider if that copy "
        f"differs too [{path}]"
    )


def find_lost(storage: StorageClient, files: Iterable[ScanFile]) -> frozenset[str]:
    """The paths of files that are missing or have the wrong size."""

    def is_lost(file: ScanFile) -> bool:
        status = storage.status(file.path)
        return status is None or status.size != file.size

    listed = list(files)
    lost = map_ordered(is_lost, listed, _THREADS, "verify")
    return frozenset(file.path for file, is_one in zip(listed, lost, strict=True) if is_one)
