"""Random operations on a table that has a mirror: what a reader of Iceberg finds is what a plain model says."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from lakeport import iceberg, tables
from lakeport.iceberg import Conversion
from tests.iceberg.readers import PyIceberg, Reader, snapshots_of
from tests.rows import counted
from tests.stateful import Columns, Row, RowIds, TableMachine


class MirrorMachine(TableMachine):
    """Each version is mirrored when it is there, except for some that are left for the next time; then all that are
    new may become one snapshot. The latest is compared at once, in the end all that have a snapshot."""

    def __init__(self) -> None:
        super().__init__()
        self.format_version = 2
        self.mirror: Conversion | None = None
        self.skipped = 0
        self.squash = False

    @initialize(format_version=st.sampled_from([2, 3]))
    def choose_format(self, format_version: int) -> None:
        self.format_version = format_version

    @rule(number=st.integers(1, 3), squash=st.booleans())
    def leave_some_for_the_next_time(self, number: int, squash: bool) -> None:
        self.skipped, self.squash = number, squash

    @precondition(lambda self: self.mirror and self.format_version == 2)
    @rule()
    def upgrade(self) -> None:
        self.format_version = 3
        self.convert()

    def done(
        self, result: tables.Result, rows: list[Row], columns: Columns | None = None, row_ids: RowIds = "any"
    ) -> None:
        super().done(result, rows, columns, row_ids)
        self.skipped -= 1
        if self.skipped < 0:
            self.convert()

    def convert(self) -> None:
        self.mirror = iceberg.convert(
            self.path, format_version=self.format_version, squash=self.squash, engine=self.engine
        )
        assert (self.mirror.version, self.mirror.format_version) == (len(self.versions) - 1, self.format_version)
        self.squash = False
        self.compare(PyIceberg(), [self.mirror.version])

    def rows_are_those_of_the_model(self) -> None:
        """Not asked here: what the model says is compared with the mirror."""

    def changes_lead_from_one_version_to_another(self) -> None:
        """Not asked here: mirrors have nothing to do with the change feed."""

    def check_row_ids(self, change: RowIds) -> None:
        """Not asked here: mirrors do not show the row ids of the Delta table."""

    def check_with_peers(self) -> None:
        if self.mirror is not None:
            self.compare(PyIceberg(), sorted({*snapshots_of(self.mirror)} & {*self.readable()}))

    def compare(self, reader: Reader, versions: list[int]) -> None:
        assert self.mirror is not None
        snapshots = snapshots_of(self.mirror)
        for version in versions:
            found = reader.read(self.mirror.metadata_location, snapshots[version]["snapshot-id"])
            assert found.column_names == list(self.versions[version].columns), f"version {version}"
            assert counted(found.to_pylist()) == counted(self.versions[version].rows), f"version {version}"
