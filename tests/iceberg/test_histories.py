"""Random histories, mirrored as they go on. `make soak` runs more of them: `LAKEPORT_STATEFUL_EXAMPLES=500`."""

from hypothesis.stateful import run_state_machine_as_test

from tests.examples import histories
from tests.iceberg.histories import MirrorMachine
from tests.iceberg.readers import DuckDb, snapshots_of

STEPS = 15


def test_whatever_is_done_to_a_table_its_mirror_shows_the_same_rows() -> None:
    run_state_machine_as_test(MirrorMachine, settings=histories(12, stateful_step_count=STEPS))


def test_duckdb_sees_the_same_rows_in_the_end(duckdb: DuckDb) -> None:
    class Machine(MirrorMachine):
        def check_with_peers(self) -> None:
            if self.mirror is not None:
                self.compare(duckdb, sorted({*snapshots_of(self.mirror)} & {*self.readable()}))

    run_state_machine_as_test(Machine, settings=histories(6, stateful_step_count=STEPS))
