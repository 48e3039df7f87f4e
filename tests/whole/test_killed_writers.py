"""A writer that is killed at random moments. The long form is in `tests/soak` (`make soak`)."""

from pathlib import Path

import pytest

from tests.soak.killed_writers import run

SEED = 7


@pytest.mark.parametrize("kills", [2, pytest.param(8, marks=pytest.mark.exhaustive(instead="two kills"))])
def test_a_killed_writer_leaves_the_old_or_the_new_version_and_the_next_write_succeeds(
    tmp_path: Path, kills: int
) -> None:
    print("seed", SEED)
    report = run(tmp_path, kills=kills, seed=SEED)
    print(report)
    assert report.kills == kills
    assert report.looks >= kills
