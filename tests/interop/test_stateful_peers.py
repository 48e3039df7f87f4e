"""Random operations on tables: in the end DuckDB and Delta's own Spark library read what a plain model says."""

from typing import Any

from hypothesis.stateful import run_state_machine_as_test

from tests.examples import histories
from tests.interop.peers import Peer
from tests.interop.rows import assert_spark_reads_the_same, assert_spark_reads_the_same_changes, duckdb_query
from tests.rows import counted
from tests.stateful import FEED, TableMachine

SPARK_STEPS, DUCKDB_STEPS = 40, 20


def test_duckdb_reads_what_a_plain_model_says(duckdb: Peer) -> None:
    class Machine(TableMachine):
        def check_with_peers(self) -> None:
            found = self.readable()
            queries = [duckdb_query(self.path, version) for version in found]
            for version, rows in zip(found, duckdb.read(*queries), strict=True):
                expected = self.versions[version].rows
                assert seen_by_duckdb(self, rows.to_pylist()) == seen_by_duckdb(self, expected), f"version {version}"

    run_state_machine_as_test(Machine, settings=histories(24, stateful_step_count=DUCKDB_STEPS))


def seen_by_duckdb(machine: TableMachine, rows: list[dict[str, Any]]) -> object:
    """DuckDB 1.5 reads nulls from the partition columns of tables with column mapping."""
    unseen = {"part"} if machine.is_mapped and machine.partitioned else set()
    return counted([{name: value for name, value in row.items() if name not in unseen} for row in rows])


def test_spark_reads_what_a_plain_model_says(spark: Peer) -> None:
    """By way of what Lakeport reads, which is what the model says, after every step."""

    class Machine(TableMachine):
        def check_with_peers(self) -> None:
            older, latest = self.any_of(self.readable()), len(self.versions) - 1
            assert_spark_reads_the_same(spark, self.path, sorted({older, latest}))
            columns = self.columns.items()
            if FEED in self.properties and all(v.columns.items() <= columns for v in self.versions[older:]):
                assert_spark_reads_the_same_changes(spark, self.path, [(min(older + 1, latest), latest)])

    run_state_machine_as_test(Machine, settings=histories(8, stateful_step_count=SPARK_STEPS))
