"""Readers beside a writer, and a server that is killed. The long form is `tests/soak/sharing_load.py` (`make soak`)."""

from pathlib import Path

from tests.soak import sharing_load


def test_every_answer_is_of_one_version_while_the_table_is_written(tmp_path: Path) -> None:
    report = sharing_load.run(tmp_path, readers=16, seconds=4)
    assert report.answers > 50
    assert report.versions > 3, "the readers never saw a change"


def test_a_server_that_is_killed_leaves_an_error_and_never_a_short_answer(tmp_path: Path) -> None:
    ends = sharing_load.kill(tmp_path, sharing_load.many_files(tmp_path, 50_000), kills=4)
    assert ends["error"], "no server was killed while it answered"
