"""A stream whose driver is killed. The long form is in `tests/soak`."""

from pathlib import Path

import pytest

from tests.soak.killed_streams import run

SEED = 11


@pytest.mark.parametrize(
    ("source", "kills"),
    [
        ("deltaSharing", 1),
        pytest.param("deltaSharing", 2, marks=pytest.mark.exhaustive(instead="one kill")),
        pytest.param("lakeport", 1, marks=pytest.mark.exhaustive(instead="a kill of the other source")),
    ],
)
def test_a_killed_stream_goes_on_with_each_row_once(tmp_path: Path, source: str, kills: int) -> None:
    print("seed", SEED)
    report = run(tmp_path, source=source, sink="lakeport", kills=kills, seed=SEED)
    print(report)
    assert report.kills == kills
    assert report.batches >= kills
