"""`_delta_log`: the files that make up a version, their contents, and commit times.

May import `definition` and all below it.
"""

from lakeport.kernel.log.checkpoint import read_checkpoint_files, read_sidecars
from lakeport.kernel.log.checksum import (
    Checksum,
    FileTotals,
    next_checksum,
    read_checksum,
    whole_checksum,
    write_checksum,
)
from lakeport.kernel.log.commits import (
    FILE_KINDS,
    ActionLine,
    CommitActions,
    CommitLines,
    read_batches,
    read_commit,
    read_lines,
)
from lakeport.kernel.log.compactions import commit_files
from lakeport.kernel.log.file_columns import FileColumns, to_file_batch
from lakeport.kernel.log.keys import decode_paths, file_keys, first_occurrences, keys_of
from lakeport.kernel.log.names import (
    checkpoint_path,
    checksum_path,
    commit_path,
    is_checkpoint,
    is_commit,
    last_checkpoint_path,
    log_path,
    parse_version,
    version_name,
)
from lakeport.kernel.log.replay import LogReplay
from lakeport.kernel.log.segment import (
    Checkpoint,
    Commit,
    LogListing,
    LogSegment,
    extend_segment,
    find_segment,
    last_checkpoint,
    list_log,
    list_newer,
    sort_log_files,
)
from lakeport.kernel.log.state import STATE_FIELDS, TableState, read_checkpoint_state
from lakeport.kernel.log.times import CommitInfo, CommitTimes, format_time, read_history

__all__ = [
    "FILE_KINDS", "STATE_FIELDS", "ActionLine", "Checkpoint", "Checksum", "Commit", "CommitActions", "CommitInfo",
    "CommitLines", "CommitTimes", "FileColumns", "FileTotals", "LogListing", "LogReplay", "LogSegment", "TableState",
    "checkpoint_path", "checksum_path", "commit_files", "commit_path", "decode_paths", "extend_segment", "file_keys",
    "find_segment", "first_occurrences", "format_time", "is_checkpoint", "is_commit", "keys_of", "last_checkpoint",
    "last_checkpoint_path", "list_log", "list_newer", "log_path", "next_checksum", "parse_version", "read_batches",
    "read_checkpoint_files", "read_checkpoint_state", "read_checksum", "read_commit", "read_history", "read_lines",
    "read_sidecars", "sort_log_files", "to_file_batch", "version_name", "whole_checksum", "write_checksum",
]  # fmt: skip
