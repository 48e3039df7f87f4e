"""A writer that is killed at random moments. The long form is in `tests/soak` (`make soak`)."""

from pathlib import Path

import pytest

from tests.soak.killed_writers import CLUSTERED, PARTITIONED, run

SEED = 7
FEW = ("merge", "spilled merge", "zorder")


@pytest.mark.parametrize(
    "kinds",
    [
        FEW,
        *(
            pytest.param(kinds, marks=pytest.mark.exhaustive(instead="three kinds"))
            for kinds in (PARTITIONED, CLUSTERED)
        ),
    ],
    ids=["few", "partitioned", "clustered"],
)
def test_a_killed_writer_leaves_the_old_or_the_new_version_and_the_next_write_succeeds(
    tmp_path: Path, kinds: tuple[str, ...]
) -> None:
    print("seed", SEED)
    report = run(tmp_path, kinds, kills=1, seed=SEED)
    print(report)
    assert all(report.kills_in(kind) for kind in kinds)
    assert report.looks >= len(kinds)
