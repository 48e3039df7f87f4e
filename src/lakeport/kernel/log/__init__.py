"""`_delta_log`: the files that make up a version, their contents, and commit times.

May import `definition` and all below it.
"""

from lakeport.kernel.log.checksum import (
    Checksum, FileTotals, next_checksum, read_checksum, whole_checksum, write_checksum,
)  # fmt: skip
from lakeport.kernel.log.commits import (
    FILE_KINDS, ActionBatch, ActionLine, CommitActions, CommitLines, read_batches, read_commit, read_lines,
)  # fmt: skip
from lakeport.kernel.log.files import (
    FileColumns, decode_paths, file_keys, first_occurrences, keys_of, to_file_batch,
)  # fmt: skip
from lakeport.kernel.log.replay import (
    LogReplay, commit_files, read_checkpoint_files, read_checkpoint_state, read_sidecars,
)  # fmt: skip
from lakeport.kernel.log.segment import (
    Checkpoint, Commit, LogListing, LogSegment, checkpoint_path, checksum_path, commit_path, extend_segment,
    find_segment, is_checkpoint, is_commit, last_checkpoint, last_checkpoint_path, list_log, list_newer, log_path,
    parse_version, sort_log_files, version_name,
)  # fmt: skip
from lakeport.kernel.log.times import CommitInfo, CommitTimes, format_time, read_history
