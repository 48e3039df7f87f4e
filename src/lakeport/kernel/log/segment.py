"""The files of `_delta_log`: their names, and which of them make up a version."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice

import msgspec

from lakeport.errors import CorruptTableError, MissingFileError, TableNotFoundError, VersionNotFoundError
from lakeport.kernel.engine import FileStatus, StorageClient

LOG_NAME = re.compile(
    r"(?P<version>\d{20})(?:"
    r"(?P<commit>\.json)"
    r"|\.(?P<end>\d{20})\.compacted\.json"
    r"|(?P<crc>\.crc)"
    r"|\.checkpoint\.(?P<part>\d{10})\.(?P<parts>\d{10})\.parquet"
    r"|\.checkpoint(?P<uuid>\.[0-9a-fA-F-]{36})?\.(?:parquet|json)"
    r"|\.(?P<staged>[0-9a-fA-F-]{36})\.json)"
)


def log_path(root: str) -> str:
    return f"{root}/_delta_log"


def last_checkpoint_path(root: str) -> str:
    return f"{log_path(root)}/_last_checkpoint"


def commit_path(root: str, version: int) -> str:
    return f"{log_path(root)}/{version_name(version)}.json"


def checksum_path(root: str, version: int) -> str:
    return f"{log_path(root)}/{version_name(version)}.crc"


def checkpoint_path(root: str, version: int, unique_id: object = None) -> str:
    """The path of a checkpoint in one file: a classic one, or a V2 checkpoint with a unique id."""
    own = "" if unique_id is None else f".{unique_id}"
    return f"{log_path(root)}/{version_name(version)}.checkpoint{own}.parquet"


def version_name(version: int) -> str:
    return f"{version:020d}"


def parse_version(path: str) -> int | None:
    """The version in a log file's name (the first one for a compaction); None for any other file."""
    match = LOG_NAME.fullmatch(path.rpartition("/")[2])
    return int(match["version"]) if match else None


def is_commit(path: str, version: int) -> bool:
    """Whether a log file is the published commit of a version."""
    return path.endswith(f"/{version_name(version)}.json")


def is_checkpoint(path: str) -> bool:
    return ".checkpoint." in path.rpartition("/")[2]


_MANY_COMMITS = 100
"""About the most commits that a repeatedly refreshed snapshot replays; beyond that, reading a newer checkpoint
pays off."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint: one file, or all parts of a multi-part one."""

    version: int
    files: tuple[FileStatus, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """A log file with the actions of versions `first` … `last`: a single commit or a compaction."""

    first: int
    last: int
    file: FileStatus
    replaced: tuple[FileStatus, ...] = ()
    """The commits that a compaction replaces, newest first; empty if any of them is gone."""


@dataclass(frozen=True, slots=True)
class LogSegment:
    """The files that make up `version`: a checkpoint, if any, and all later commits, oldest first."""

    version: int
    checkpoint: Checkpoint | None
    commits: tuple[Commit, ...]
    checksum: FileStatus | None
    latest_file: FileStatus
    """The commit of `version`, or the checkpoint if the commit has been cleaned up."""


@dataclass(slots=True)
class LogListing:
    """The contents of the log directory."""

    commits: dict[int, FileStatus] = field(default_factory=dict)
    compactions: dict[int, list[Commit]] = field(default_factory=dict)
    checkpoints: dict[int, Checkpoint] = field(default_factory=dict)
    checksums: dict[int, FileStatus] = field(default_factory=dict)

    @property
    def latest(self) -> int | None:
        return max([*self.commits, *self.checkpoints], default=None)

    @property
    def earliest(self) -> int | None:
        """The first readable version: 0, or that of the first checkpoint."""
        starts = [0] if 0 in self.commits else []
        return min([*starts, *self.checkpoints], default=None)

    def limit(self, version: int) -> None:
        """Drop everything later than `version`."""
        for files in (self.commits, self.checkpoints, self.checksums):
            for late in [v for v in files if v > version]:
                del files[late]


def list_log(storage: StorageClient, root: str, first_version: int = 0) -> LogListing:
    """The log files from `first_version` on, sorted into kinds; ignores other files."""
    return sort_log_files(storage.list_from(log_path(root), f"{version_name(first_version)}."))


def list_newer(storage: StorageClient, root: str, version: int) -> LogListing:
    """The log files newer than a version that once existed, found the faster way if they are few: all of them, or at
    least the commits and the last checksum."""
    if storage.scans_directories(log_path(root)):
        listing = _probe(storage, root, version)
        if listing is not None:
            return listing
    return list_log(storage, root, version + 1)


def _probe(storage: StorageClient, root: str, version: int) -> LogListing | None:
    """Probe for the next commits one by one. None if there are many, or if there is a gap."""
    listing, next_version = LogListing(), version + 1
    while commit := storage.status(commit_path(root, next_version)):
        listing.commits[next_version] = commit
        next_version += 1
        if len(listing.commits) > _FEW:
            return None
    ahead = (commit_path(root, next_version + i) for i in range(1, _LOOKED_AHEAD))
    if any(map(storage.status, ahead)):
        return None
    latest = next_version - 1
    if latest == version and not storage.status(commit_path(root, version)):
        return None  # cleaned up; later ones may be too
    if checksum := storage.status(checksum_path(root, latest)):
        listing.checksums[latest] = checksum
    return listing


_FEW = 64
_LOOKED_AHEAD = 8
"""Versions to probe beyond the last one, to detect a gap in the log."""


def sort_log_files(files: Iterable[FileStatus]) -> LogListing:
    listing = LogListing()
    parts: dict[tuple[int, int], dict[int, FileStatus]] = {}
    for file in files:
        match = LOG_NAME.fullmatch(file.path.rpartition("/")[2])
        if not match:
            continue
        version = int(match["version"])
        if match["commit"]:
            listing.commits[version] = file
        elif match["staged"]:
            continue  # proposals: only a catalog knows which ones are commits
        elif match["end"]:
            listing.compactions.setdefault(version, []).append(Commit(version, int(match["end"]), file))
        elif match["crc"]:
            listing.checksums[version] = file
        elif match["part"]:
            parts.setdefault((version, int(match["parts"])), {})[int(match["part"])] = file
        elif match["uuid"] or version not in listing.checkpoints:
            listing.checkpoints[version] = Checkpoint(version, (file,))
    for (version, count), found in parts.items():
        if version not in listing.checkpoints and set(found) == set(range(1, count + 1)):
            listing.checkpoints[version] = Checkpoint(version, tuple(found[i] for i in sorted(found)))
    return listing


def find_segment(
    storage: StorageClient, root: str, version: int | None = None, log_tail: Sequence[Commit] = ()
) -> LogSegment:
    """Find the files that make up `version`, or the latest version.

    `log_tail` holds commits ratified by a catalog; they replace published ones.

    Raises `TableNotFoundError`, `VersionNotFoundError`, and `CorruptTableError` for a log with a gap."""
    try:
        return _find_segment(storage, root, version, log_tail)
    except CorruptTableError:
        # A listing during concurrent writes may miss a version and yet include the next one.
        return build_segment(list_log(storage, root), root, version, log_tail)


def _find_segment(storage: StorageClient, root: str, version: int | None, log_tail: Sequence[Commit]) -> LogSegment:
    if storage.scans_directories(log_path(root)):
        hint, files = last_checkpoint(storage, root), None
    else:  # a round trip takes long: both requests are sent at once, and mostly the first page is the whole log
        hints = storage.read_many([FileStatus(last_checkpoint_path(root), 0)])
        files = storage.list_from(log_path(root), f"{version_name(0)}.")
        page = list(islice(files, _PAGE))
        hint = None if len(page) < _PAGE else _decode_hint(partial(next, hints))
        files = chain(page, files)
    if hint is not None and hint > 0 and (version is None or hint <= version):
        listing = _list_from_checkpoint(storage, root, hint)
        latest = max([*listing.commits, *(commit.last for commit in log_tail)], default=hint)
        if hint in listing.checkpoints and (version is None or version <= latest):
            return build_segment(listing, root, version, log_tail)
    listing = list_log(storage, root) if files is None else sort_log_files(files)
    return build_segment(listing, root, version, log_tail)


_PAGE = 1000
"""The number of names that most object stores list per request."""


def _list_from_checkpoint(storage: StorageClient, root: str, version: int) -> LogListing:
    """The log from a checkpoint on; a single file under the classic name is found without a listing."""
    path = checkpoint_path(root, version)
    if storage.scans_directories(log_path(root)) and (file := storage.status(path)) is not None:
        listing = list_newer(storage, root, version)
        listing.checkpoints.setdefault(version, Checkpoint(version, (file,)))
        if commit := storage.status(commit_path(root, version)):
            listing.commits[version] = commit
        return listing
    return list_log(storage, root, version)


def build_segment(
    listing: LogListing, root: str, version: int | None = None, log_tail: Sequence[Commit] = ()
) -> LogSegment:
    for commit in log_tail:
        listing.commits[commit.last] = commit.file
    latest = listing.latest
    if latest is None:
        raise TableNotFoundError(
            f"there is no Delta table at {root}: its _delta_log has no commits; check the path", path=root
        )
    target = latest if version is None else version
    base = max((v for v in listing.checkpoints if v <= target), default=None)
    if version is not None and (version > latest or (base is None and 0 not in listing.commits)):
        raise version_not_found(listing, root, version)
    commits = tuple(_cover(listing, root, 0 if base is None else base + 1, target))
    checkpoint = None if base is None else listing.checkpoints[base]
    latest_file = listing.commits.get(target) or (checkpoint.files[0] if checkpoint else commits[-1].file)
    return LogSegment(target, checkpoint, commits, listing.checksums.get(target), latest_file)


def version_not_found(listing: LogListing, root: str, version: int) -> VersionNotFoundError:
    earliest, latest = listing.earliest, listing.latest
    can = f"it can read {earliest} to {latest}" if earliest is not None else "no version can be read"
    return VersionNotFoundError(
        f"the table has no version {version}: {can} [{root}]", version=version, earliest=earliest, latest=latest
    )


def _cover(listing: LogListing, root: str, first: int, last: int) -> Iterator[Commit]:
    """Log files that cover versions first … last once each: compactions where they fit, otherwise commits."""
    version = first
    while version <= last:
        compactions = [c for c in listing.compactions.get(version, ()) if version < c.last <= last]
        if compactions:
            longest = max(compactions, key=lambda c: c.last)
            versions = range(longest.last, version - 1, -1)
            there = all(number in listing.commits for number in versions)
            commit = replace(longest, replaced=tuple(map(listing.commits.__getitem__, versions)) if there else ())
        elif version in listing.commits:
            commit = Commit(version, version, listing.commits[version])
        else:
            raise CorruptTableError(
                f"the log has a gap: version {version} is missing, versions {_span(listing.commits)} are there and no "
                f"complete checkpoint bridges it; restore the missing commit file",
                path=log_path(root),
            )
        yield commit
        version = commit.last + 1


def _span(versions: Iterable[int]) -> str:
    """Versions for messages, with runs shortened: "0, 2 to 14"."""
    runs: list[list[int]] = []
    for version in sorted(versions):
        if runs and runs[-1][-1] == version - 1:
            runs[-1] = [runs[-1][0], version]
        else:
            runs.append([version])
    return ", ".join(" to ".join(map(str, run)) for run in runs) or "none"


def extend_segment(segment: LogSegment, storage: StorageClient, root: str) -> LogSegment:
    """Extend the segment to the latest version by looking for newer files; return itself if there are none. Rebuilds it
    if commits in between were cleaned up, it already has many commits, or another table has replaced the original.
    Raises `TableNotFoundError` if the table is gone."""
    listing = list_newer(storage, root, segment.version - 1)
    if _is_gone(segment, listing.commits.get(segment.version)):
        found = find_segment(storage, root)
        return segment if found == segment else found
    newest = max(listing.commits, default=segment.version)
    if newest <= segment.version and max(listing.checkpoints, default=-1) <= segment.version:
        return segment
    if segment.version + 1 not in listing.commits or _has_grown(segment, storage, root):
        return find_segment(storage, root)
    added = tuple(_cover(listing, root, segment.version + 1, newest))
    return LogSegment(
        newest, segment.checkpoint, segment.commits + added, listing.checksums.get(newest), listing.commits[newest]
    )


def _is_gone(segment: LogSegment, found: FileStatus | None) -> bool:
    """Whether its last commit was published and is now gone: cleaned up, or replaced by another table's."""
    return is_commit(segment.latest_file.path, segment.version) and found != segment.latest_file


def _has_grown(segment: LogSegment, storage: StorageClient, root: str) -> bool:
    """Whether a newer checkpoint would save reading many commits."""
    base = segment.checkpoint.version if segment.checkpoint else -1
    return len(segment.commits) >= _MANY_COMMITS and (last_checkpoint(storage, root) or -1) > base


class _Hint(msgspec.Struct):
    version: int


def last_checkpoint(storage: StorageClient, root: str) -> int | None:
    """The version in `_last_checkpoint`; None if the file is missing or unusable."""
    return _decode_hint(lambda: storage.read(last_checkpoint_path(root)))


def _decode_hint(read: Callable[[], bytes]) -> int | None:
    try:
        return msgspec.json.decode(read(), type=_Hint).version
    except (MissingFileError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
