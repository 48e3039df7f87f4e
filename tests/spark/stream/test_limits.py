import pytest

from lakeport.kernel.scan import ScanFile
from lakeport.spark.stream.offsets import Admission, Limits

FILES = [ScanFile(path=f"part-{number}", size=10) for number in range(5)]


@pytest.mark.parametrize(
    ("files", "size", "taken"), [(2, None, 2), (None, 25, 3), (4, 15, 2), (None, 1, 1), (1000, None, 5)]
)
def test_a_batch_takes_files_up_to_its_limits(files: int | None, size: int | None, taken: int) -> None:
    assert Admission(Limits.of(files, size)).take(FILES, whole=False) == taken


def test_what_belongs_together_is_taken_whole_or_not_at_all() -> None:
    admission = Admission(Limits.of(2, None))
    assert admission.take(FILES[:1], whole=True) == 1
    assert admission.take(FILES, whole=True) == 5
    assert admission.take(FILES, whole=True) == 0
    assert admission.take(FILES, whole=False) == 0


@pytest.mark.parametrize(
    ("limits", "taken"),
    [(None, 5000), (Limits.of(None, None), 1000), (Limits.of(None, 1 << 30), 5000)],
    ids=["no limits", "no options", "a limit of bytes alone"],
)
def test_without_options_a_stream_takes_a_thousand_files(limits: Limits | None, taken: int) -> None:
    assert Admission(limits).take(FILES * 1000, whole=False) == taken
