"""Random histories of a table, mirrored now and then: every mirrored version has the rows of the Delta table."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import lakeport
from lakeport import iceberg, tables
from tests.examples import histories
from tests.iceberg.readers import PyIceberg, assert_mirrors


class MirroredTable(RuleBasedStateMachine):
    """Operations on a table, and conversions of it to both format versions."""

    @initialize(partitioned=st.booleans(), mapped=st.booleans())
    def create(self, partitioned: bool, mapped: bool) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.path, self.next_id, self.columns = str(Path(self._folder.name) / "table"), 0, ["id", "g", "n"]
        properties = {"delta.enableDeletionVectors": "true"}
        properties |= {"delta.columnMapping.mode": "name"} if mapped else {}
        self.mapped, self.partitioned = mapped, partitioned
        tables.create(self.path, self.rows(20), partition_by=["g"] if partitioned else [], properties=properties)

    def rows(self, count: int) -> pa.Table:
        ids = range(self.next_id, self.next_id + count)
        self.next_id += count
        columns: dict[str, Any] = {name: [f"{name}{i}" for i in ids] for name in self.columns[3:]}
        return pa.table({"id": list(ids), "g": [i % 3 for i in ids], "n": [i * 10 for i in ids], **columns})

    @rule(count=st.integers(1, 15))
    def append(self, count: int) -> None:
        tables.append(self.path, self.rows(count))

    @rule(modulus=st.integers(1, 9), rest=st.integers(0, 8))
    def delete(self, modulus: int, rest: int) -> None:
        tables.delete(self.path, f"id % {modulus + 1} = {rest}")

    @rule(modulus=st.integers(2, 9))
    def update(self, modulus: int) -> None:
        tables.update(self.path, {"n": "n + 1"}, where=f"id % {modulus} = 1")

    @rule(count=st.integers(1, 5), start=st.integers(0, 30))
    def merge(self, count: int, start: int) -> None:
        source = self.rows(count).set_column(0, "id", pa.array(range(start, start + count), pa.int64()))
        merge = tables.merge(self.path, source, "target.id = source.id")
        merge.when_matched_update({"n": "source.n"}).when_not_matched_insert_all().execute()

    @rule(purge=st.booleans())
    def optimize(self, purge: bool) -> None:
        tables.optimize(self.path, purge=purge)

    @rule(back=st.integers(1, 4))
    def restore(self, back: int) -> None:
        latest = next(iter(tables.history(self.path))).version
        tables.restore(self.path, version=max(0, latest - back))
        self.columns = self._columns_now()

    def _columns_now(self) -> list[str]:
        return lakeport.scan(self.path).schema.names

    @rule()
    @precondition(lambda self: len(self.columns) < 6)
    def add_column(self) -> None:
        name = f"c{self.next_id}x{len(self.columns)}"
        tables.add_columns(self.path, {name: "string"})
        self.columns = self._columns_now()

    @rule()
    @precondition(lambda self: self.mapped and len(self.columns) > 3)
    def drop_column(self) -> None:
        tables.drop_columns(self.path, [self.columns[-1]])
        self.columns = self._columns_now()

    @rule(group=st.integers(0, 2), count=st.integers(1, 5))
    def overwrite_a_part(self, group: int, count: int) -> None:
        rows = self.rows(count).set_column(1, "g", pa.array([group] * count, pa.int64()))
        tables.overwrite(self.path, rows, where=f"g = {group}")

    @rule(version=st.sampled_from([2, 3]), squash=st.booleans())
    def convert(self, version: int, squash: bool) -> None:
        out = f"{self.path}/_iceberg{version}"
        conversion = iceberg.convert(self.path, out=out, format_version=version, squash=squash)
        assert_mirrors(PyIceberg(), self.path, conversion)

    def teardown(self) -> None:
        if hasattr(self, "path"):
            self.convert(2, False)
            self.convert(3, True)
            self._folder.cleanup()


TestMirroredTable = MirroredTable.TestCase
TestMirroredTable.settings = histories(8, stateful_step_count=12)
