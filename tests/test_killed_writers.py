"""A writer that is killed at random moments. The long form is in `tests/soak` (`make soak`)."""

from pathlib import Path

from tests.soak.killed_writers import run

SEED = 7


def test_a_killed_writer_leaves_the_old_or_the_new_version_and_the_next_write_succeeds(tmp_path: Path) -> None:
    print("seed", SEED)
    report = run(tmp_path, kills=8, seed=SEED)
    print(report)
    assert report.kills == 8
    assert report.looks > 8
    assert sum(report.done.values()) > 8
