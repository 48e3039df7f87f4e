"""Random operations against a plain model. `make soak` runs more of them: `LAKEPORT_STATEFUL_EXAMPLES=1000`."""

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from hypothesis.stateful import run_state_machine_as_test

from tests.examples import histories
from tests.rows import counted
from tests.stateful import TableMachine


class DeltalakeMachine(TableMachine):
    """In the end, deltalake reads the same rows."""

    def check_with_peers(self) -> None:
        found = QueryBuilder().register("t", DeltaTable(self.path)).execute("SELECT * FROM t").read_all()
        assert counted(pa.table(found).to_pylist()) == counted(self.latest.rows)


def test_whatever_is_done_to_a_table_it_is_as_a_plain_model_says() -> None:
    run_state_machine_as_test(DeltalakeMachine, settings=histories(12, stateful_step_count=20))
