"""Processes that write one table at the same time. The long forms are in `tests/soak` (`make soak`)."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.soak import mixed_writers, writers


def test_eight_processes_append_without_losing_or_doubling_a_row(tmp_path: Path) -> None:
    report = writers.run(str(tmp_path / "table"), writers=8, commits=5)
    assert report.versions == 40
    assert report.rebased > 0, "the writers never met"


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param(mixed_writers.COPY_ON_WRITE, marks=pytest.mark.exhaustive(instead="a table with all features")),
        mixed_writers.ALL_FEATURES,
    ],
)
def test_no_delete_or_update_is_lost_among_appends_and_optimize(tmp_path: Path, properties: Mapping[str, str]) -> None:
    counts = mixed_writers.run(str(tmp_path / "table"), properties, seconds=5)
    assert {name.split()[0] for name in counts} == {"append", "delete", "update", "optimize"}
    assert any(name.endswith("refused") for name in counts), "the writers never met"
    assert not counts["append refused"]
