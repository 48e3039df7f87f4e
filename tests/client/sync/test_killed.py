"""A sync that is killed at random moments. The long form is in `tests/soak`."""

from pathlib import Path

import pytest

from tests.soak.killed_sync import run, run_steps

SEED = 7


def test_a_killed_sync_leaves_a_whole_version_and_the_next_one_goes_on(tmp_path: Path) -> None:
    print("seed", SEED)
    report = run(tmp_path, kills=4, seed=SEED)
    print(report)
    assert report.kills + report.ended == 4
    assert report.versions > 1


@pytest.mark.exhaustive(instead="kills at random moments")
def test_whatever_the_last_step_was_the_next_sync_goes_on(tmp_path: Path) -> None:
    assert run_steps(tmp_path, each=4) > 3
