"""`Changes`: the rows that commits inserted, updated and deleted."""

from __future__ import annotations

from dataclasses import dataclass

from lakeport.frame.rows import Rows
from lakeport.frame.selection import VersionRange
from lakeport.kernel.changes import ChangeFile, ChangeScan, TableChanges


@dataclass(frozen=True, eq=False)
class Changes(Rows[ChangeScan]):
    """The rows that a table's commits inserted, updated and deleted, oldest commit first, with `_change_type`
    (`insert`, `delete`, `update_preimage`, `update_postimage`), `_commit_version` and `_commit_timestamp`.

    Raises `ChangeFeedError` where the feed was off or the schema was different, and `VersionNotFoundError` for versions
    that the table never had or no longer has."""

    _reads: VersionRange

    @property
    def feed(self) -> TableChanges:
        """The version range to read. Concurrent threads get the same one."""
        return self._reads.feed

    def files(self) -> list[ChangeFile]:
        """The files to read, with statistics. Opens none of them."""
        return list(self.plan(with_stats=True).files())

    def explain(self) -> str:
        """A readable description of what a read would do."""
        files = list(self.plan().files())
        return self._explained(
            "partitions and commits suffice",
            table=self.target if self.source.prunes else self.feed.root,
            versions=f"{self.feed.start} to {self.feed.end}",
            columns=", ".join(self.schema.names),
            files=f"{len(files)}, {sum(f.size for f in files):,} bytes",
        )
