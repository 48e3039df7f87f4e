"""`_delta_log`: the files that make up a version, their contents, and commit times.

May import `definition` and all below it.
"""

from lakeport.kernel.log.checkpoint import read_checkpoint_files, read_checkpoint_state, read_sidecars
from lakeport.kernel.log.checksum import (
    Checksum, FileTotals, next_checksum, read_checksum, whole_checksum, write_checksum,
)  # fmt: skip
from lakeport.kernel.log.commits import (
    FILE_KINDS, ActionBatch, ActionLine, CommitActions, CommitLines, read_batches, read_commit, read_lines,
)  # fmt: skip
from lakeport.kernel.log.files import (
    FileColumns, decode_paths, file_keys, first_occurrences, keys_of, to_file_batch,
)  # fmt: skip
from lakeport.kernel.log.names import (
    checkpoint_path, checksum_path, commit_path, is_checkpoint, is_commit, last_checkpoint_path, log_path,
    parse_version, version_name,
)  # fmt: skip
from lakeport.kernel.log.replay import LogReplay, commit_files
from lakeport.kernel.log.segment import (
    Checkpoint, Commit, LogListing, LogSegment, extend_segment, find_segment, last_checkpoint, list_log, list_newer,
    sort_log_files,
)  # fmt: skip
from lakeport.kernel.log.times import CommitInfo, CommitTimes, format_time, read_history
