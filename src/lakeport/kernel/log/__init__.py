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
from lakeport.kernel.log.commits import CommitChanges, check_commits_are_there, read_commit_changes
from lakeport.kernel.log.compactions import commit_files
from lakeport.kernel.log.keys import decode_paths, file_keys, first_occurrences, present_actions
from lakeport.kernel.log.replay import FileColumns, LogReplay, to_file_batch
from lakeport.kernel.log.segment import (
    Checkpoint,
    Commit,
    LogListing,
    LogSegment,
    extend_segment,
    find_segment,
    last_checkpoint,
    last_checkpoint_path,
    list_log,
    list_newer,
    log_path,
    parse_version,
    sort_log_files,
    version_name,
)
from lakeport.kernel.log.state import STATE_FIELDS, TableState, read_checkpoint_state
from lakeport.kernel.log.times import CommitInfo, CommitTimes, format_time, read_commit_info, read_history

__all__ = [
    "STATE_FIELDS", "Checkpoint", "Checksum", "Commit", "CommitChanges", "CommitInfo", "CommitTimes", "FileColumns",
    "FileTotals", "LogListing", "LogReplay", "LogSegment", "TableState", "check_commits_are_there", "commit_files",
    "decode_paths", "extend_segment", "file_keys", "find_segment", "first_occurrences", "format_time",
    "last_checkpoint", "last_checkpoint_path", "list_log", "list_newer", "log_path", "next_checksum", "parse_version",
    "present_actions", "read_checkpoint_files", "read_checkpoint_state", "read_checksum", "read_commit_changes",
    "read_commit_info", "read_history", "read_sidecars", "sort_log_files", "to_file_batch", "version_name",
    "whole_checksum", "write_checksum",
]  # fmt: skip
