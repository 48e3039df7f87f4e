"""A table's changes commit by commit: the change data feed, and commits for streams.

May import `snapshot`, `scan` and all below them.
"""

from lakeport.kernel.changes.commits import CommitFiles, CommitRange, TableCommits
from lakeport.kernel.changes.feed import (
    TableChanges, first_version_since, last_version_until, table_changes, table_changes_between,
)  # fmt: skip
from lakeport.kernel.changes.files import INSERT, ChangeFile, ChangeState, paths_of, transform_change_data
from lakeport.kernel.changes.plan import ChangeScan, ChangeScanBuilder
