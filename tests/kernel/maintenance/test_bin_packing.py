"""Which files are put together."""

import json

from hypothesis import given
from hypothesis import strategies as st

from lakeport.kernel.deletion_vectors import DeletionVectorDescriptor
from lakeport.kernel.maintenance import plan_bins
from lakeport.kernel.scan import ScanFile


def file(name: str, size: int, *, deleted: int = 0, records: int | None = 100, **partition: str | None) -> ScanFile:
    vector = DeletionVectorDescriptor("i", "x", 1, deleted) if deleted else None
    stats = None if records is None else json.dumps({"numRecords": records})
    return ScanFile(path=name, size=size, partition_values=partition, deletion_vector=vector, stats=stats)


def names(*files: ScanFile, target: int = 100, purge: bool = False) -> list[list[str]]:
    return [[f.path for f in found] for found in plan_bins(files, target, purge=purge)]


def test_files_are_packed_up_to_the_target_size() -> None:
    assert names(*(file(name, 40) for name in "abcde")) == [["a", "b"], ["c", "d"]]


def test_a_later_file_fills_an_earlier_bin() -> None:
    assert names(file("a", 60), file("b", 70), file("c", 40), file("d", 30)) == [["a", "c"], ["b", "d"]]


def test_partitions_are_not_mixed_and_null_has_two_spellings() -> None:
    files = [file("a", 1, p="x"), file("b", 1, p=None), file("c", 1, p="x"), file("d", 1, p="")]
    assert names(*files) == [["a", "c"], ["b", "d"]]


def test_a_large_file_is_left_alone() -> None:
    assert names(file("a", 75), file("b", 10), file("c", 10)) == [["b", "c"]]


def test_deleted_rows_count_only_when_they_are_many() -> None:
    assert names(file("a", 1000, deleted=5)) == []
    assert names(file("a", 1000, deleted=6)) == [["a"]]
    assert names(file("a", 1000, deleted=1), purge=True) == [["a"]]
    assert names(file("a", 1000, deleted=1, records=None)) == [["a"]]


def test_a_file_counts_with_what_lives_in_it() -> None:
    assert names(file("a", 80, deleted=50), file("b", 60)) == [["a", "b"]]


@given(st.lists(st.integers(0, 150), max_size=40))
def test_no_bin_is_too_large_and_no_file_is_lost_or_doubled(sizes: list[int]) -> None:
    files = [file(str(index), size) for index, size in enumerate(sizes)]
    bins = plan_bins(files, 100)
    packed = [f.path for found in bins for f in found]
    assert len(packed) == len(set(packed))
    assert all(len(found) > 1 and sum(f.size for f in found) <= 100 for found in bins)
    small = [f for f in files if f.size < 75 and f.path not in packed]
    assert all(a.size + b.size > 100 for a in small[-2:] for b in small[-2:] if a is not b)
