"""Conversions that are killed. The long form is in `tests/soak` (`make soak`)."""

from pathlib import Path

import pytest

from tests.soak.killed_conversions import run, run_steps

SEED = 7


@pytest.mark.parametrize(
    "format_version", [pytest.param(2, marks=pytest.mark.exhaustive(instead="kills in version 3")), 3]
)
def test_a_killed_conversion_leaves_a_whole_version_and_the_next_one_completes(
    tmp_path: Path, format_version: int
) -> None:
    report = run(tmp_path, kills=3, seed=SEED, format_version=format_version)
    print(report)
    assert (report.kills, report.together) >= (3, 1)


@pytest.mark.exhaustive(instead="kills at random moments, and test_crashes")
def test_a_conversion_that_ends_at_any_step_of_its_writing_leaves_a_whole_version(tmp_path: Path) -> None:
    assert run_steps(tmp_path, each=25) > 1
