"""Random histories, mirrored as they go on. `make soak` runs more of them: `LAKEPORT_STATEFUL_EXAMPLES=500`."""

import os

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.iceberg.histories import MirrorMachine
from tests.iceberg.readers import DuckDb, snapshots_of

EXAMPLES = int(os.environ.get("LAKEPORT_STATEFUL_EXAMPLES", "12"))
STEPS = 15


def given(examples: int) -> settings:
    """A history is too slow to make it small when it fails, too."""
    return settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


def test_whatever_is_done_to_a_table_its_mirror_shows_the_same_rows() -> None:
    run_state_machine_as_test(MirrorMachine, settings=given(EXAMPLES))


def test_duckdb_sees_the_same_rows_in_the_end(duckdb: DuckDb) -> None:
    class Machine(MirrorMachine):
        def check_with_peers(self) -> None:
            if self.mirror is not None:
                self.compare(duckdb, sorted({*snapshots_of(self.mirror)} & {*self.readable()}))

    run_state_machine_as_test(Machine, settings=given(EXAMPLES // 2))
