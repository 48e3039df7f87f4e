"""Which files of a log make a version."""

import json
from collections.abc import Iterator

import pytest

from lakeport.engine import memory_engine
from lakeport.engine.storage.memory import MemoryStorage
from lakeport.errors import CorruptTableError, TableNotFoundError, VersionNotFoundError
from lakeport.kernel.engine import FileStatus
from lakeport.kernel.log import LogSegment, extend_segment, find_segment, list_log
from lakeport.testing.builder import TableBuilder, rows, struct

ROOT = "memory:///t"


def log(*names: str, hint: str | None = None) -> MemoryStorage:
    """A log of files with these names; a number is a commit, `a-b` a compaction, `cN` a classic checkpoint."""
    storage = MemoryStorage()
    for name in names:
        if name.isdigit():
            name = f"{int(name):020d}.json"
        elif name[0] == "c" and name[1:].isdigit():
            name = f"{int(name[1:]):020d}.checkpoint.parquet"
        elif "-" in name and name.replace("-", "").isdigit():
            first, last = name.split("-")
            name = f"{int(first):020d}.{int(last):020d}.compacted.json"
        storage.write(f"{ROOT}/_delta_log/{name}", b"{}")
    if hint is not None:
        storage.write(f"{ROOT}/_delta_log/_last_checkpoint", hint.encode())
    return storage


def part(version: int, number: int, count: int) -> str:
    return f"{version:020d}.checkpoint.{number:010d}.{count:010d}.parquet"


def found(storage: MemoryStorage, version: int | None = None) -> tuple[int | None, list[tuple[int, int]]]:
    """The version of the checkpoint and the spans of the commits."""
    segment = find_segment(storage, ROOT, version)
    return segment.checkpoint and segment.checkpoint.version, [(c.first, c.last) for c in segment.commits]


@pytest.mark.parametrize(
    ("names", "version", "checkpoint", "commits"),
    [
        ("0 1 2", None, None, [0, 1, 2]),
        ("0 1 2", 1, None, [0, 1]),
        ("0 1 c1 2", None, 1, [2]),
        ("0 1 c1 2", 0, None, [0]),
        ("0 2 c2 3", None, 2, [3]),
        ("0 1 3", 1, None, [0, 1]),
    ],
)
def test_the_last_checkpoint_and_what_follows_it_make_a_version(
    names: str, version: int | None, checkpoint: int | None, commits: list[int]
) -> None:
    """A gap before the checkpoint or after the version is none."""
    assert found(log(*names.split()), version) == (checkpoint, [(number, number) for number in commits])


def test_a_log_may_begin_with_a_checkpoint() -> None:
    storage = log("c5", "6", "7")
    assert found(storage) == (5, [(6, 6), (7, 7)])
    with pytest.raises(VersionNotFoundError) as caught:
        found(storage, 4)
    assert (caught.value.earliest, caught.value.latest) == (5, 7)


def test_a_checkpoint_alone_is_a_version() -> None:
    segment = find_segment(log("c5"), ROOT)
    assert (segment.version, segment.commits) == (5, ())
    assert segment.latest_file.path.endswith(".checkpoint.parquet")


def test_commits_that_do_not_begin_at_zero_are_an_error() -> None:
    with pytest.raises(CorruptTableError, match=r"version 0 is missing"):
        found(log("3", "4"))
    with pytest.raises(VersionNotFoundError, match="no version can be read"):
        found(log("3", "4"), 3)


@pytest.mark.parametrize("names", [("0", "2"), ("0", "1", "c1", "3"), ("c2", "4")])
def test_a_gap_is_an_error_that_names_the_missing_version(names: tuple[str, ...]) -> None:
    with pytest.raises(CorruptTableError, match=r"gap: version \d is missing") as caught:
        found(log(*names))
    assert caught.value.path == f"{ROOT}/_delta_log"


@pytest.mark.parametrize("names", [(), ("unrelated.txt", "0.json", "1.json"), ("_last_checkpoint",)])
def test_a_directory_without_commits_is_no_table(names: tuple[str, ...]) -> None:
    with pytest.raises(TableNotFoundError, match=ROOT) as caught:
        found(log(*names))
    assert isinstance(caught.value, FileNotFoundError)


def test_a_version_that_is_not_there_yet_is_not_found() -> None:
    with pytest.raises(VersionNotFoundError, match="no version 9") as caught:
        found(log("0", "1"), 9)
    assert (caught.value.version, caught.value.earliest, caught.value.latest) == (9, 0, 1)


# Multi-part and V2 checkpoints


def test_an_incomplete_multi_part_checkpoint_is_none() -> None:
    names = ["0", "1", part(1, 1, 3), part(1, 3, 3), "2"]
    assert found(log(*names)) == (None, [(0, 0), (1, 1), (2, 2)])
    assert found(log(*names, part(1, 2, 3))) == (1, [(2, 2)])


def test_parts_of_different_checkpoints_are_not_mixed() -> None:
    assert found(log("0", "1", part(1, 1, 2), part(1, 2, 3), part(1, 3, 3))) == (None, [(0, 0), (1, 1)])


def test_the_parts_come_in_their_order() -> None:
    segment = find_segment(log(*(part(1, i, 11) for i in range(11, 0, -1))), ROOT)
    assert segment.checkpoint is not None
    assert [int(f.path[-28:-19]) for f in segment.checkpoint.files] == list(range(1, 12))


def test_one_of_several_checkpoints_of_a_version_is_taken() -> None:
    uuid = "00000000000000000001.checkpoint.3a0d65cd-4056-49b8-937b-95f9e3ee90e5"
    for extra in (f"{uuid}.json", f"{uuid}.parquet", part(1, 1, 1), part(1, 1, 2)):
        segment = find_segment(log("0", "1", "c1", extra), ROOT)
        assert segment.checkpoint is not None
        assert (segment.checkpoint.version, len(segment.checkpoint.files)) == (1, 1)


# Hints


@pytest.mark.parametrize(
    "hint",
    ["", "{", "null", "[]", '{"version": "one"}', '{"size": 3}', '{"version": -4}', '{"version": 9}', '{"version": 1}'],
)
def test_a_hint_that_does_not_help_is_passed_over(hint: str) -> None:
    assert found(log("0", "1", "2", "c2", "3", hint=hint)) == (2, [(3, 3)])
    assert found(log("0", "1", "2", hint=hint)) == (None, [(0, 0), (1, 1), (2, 2)])


def test_a_hint_that_is_not_utf_8_is_passed_over() -> None:
    storage = log("0", "1")
    storage.write(f"{ROOT}/_delta_log/_last_checkpoint", b'{"version": 1, "x": "\xff"}')
    assert found(storage)[0] is None


def test_a_stale_hint_does_not_hide_a_newer_checkpoint() -> None:
    storage = log("0", "1", "c1", "2", "c2", "3", hint='{"version": 1}')
    assert found(storage) == (2, [(3, 3)])


def test_a_hint_to_a_checkpoint_that_is_gone_falls_back() -> None:
    assert found(log("0", "1", "c1", "2", "3", hint='{"version": 3}')) == (1, [(2, 2), (3, 3)])
    with pytest.raises(CorruptTableError, match="gap"):
        found(log("2", "3", hint='{"version": 2}'))


def test_a_hint_does_not_hide_which_versions_can_be_read() -> None:
    with pytest.raises(VersionNotFoundError) as caught:
        found(log("0", "1", "2", "c2", "3", hint='{"version": 2}'), 4)
    assert (caught.value.earliest, caught.value.latest) == (0, 3)


def test_a_hint_is_of_no_use_for_older_versions() -> None:
    assert found(log("0", "1", "2", "c2", hint='{"version": 2}'), 1) == (None, [(0, 0), (1, 1)])


# Compactions


def test_a_compaction_is_preferred_where_it_fits() -> None:
    names = ["0", "1", "2", "3", "4", "1-3"]
    assert found(log(*names)) == (None, [(0, 0), (1, 3), (4, 4)])
    assert found(log(*names), 2) == (None, [(0, 0), (1, 1), (2, 2)])
    assert found(log(*names, "c1")) == (1, [(2, 2), (3, 3), (4, 4)])
    assert found(log(*names, "0-1", "0-4")) == (None, [(0, 4)])


def test_a_compaction_is_never_taken_for_a_commit() -> None:
    listing = list_log(log("0", "1", "1-3"), ROOT)
    assert sorted(listing.commits) == [0, 1]
    assert listing.latest == 1
    with pytest.raises(TableNotFoundError):
        found(log("0-3"))


def test_a_compaction_of_nothing_or_backwards_is_passed_over() -> None:
    assert found(log("0", "1", "2", "1-1", "2-0")) == (None, [(0, 0), (1, 1), (2, 2)])


def test_staged_commits_in_the_log_are_never_listed_as_truth() -> None:
    staged = "00000000000000000001.4cb9708e-b478-44de-b203-53f9ba9b2876.json"
    assert found(log("0", staged, f"_staged_commits/{staged}")) == (None, [(0, 0)])


def test_other_files_in_the_log_are_ignored() -> None:
    names = [".00000000000000000001.json.crc", "00000000000000000001.json.tmp", "_commits/x", "1.json", "0x"]
    assert found(log("0", *names)) == (None, [(0, 0)])


# Segments that grow


def test_a_segment_grows_by_what_is_newer() -> None:
    storage = log("0", "1", "c1", "2")
    segment = find_segment(storage, ROOT)
    assert extend_segment(segment, storage, ROOT) is segment
    for version in (3, 4):
        storage.write(f"{ROOT}/_delta_log/{version:020d}.json", b"{}")
    longer = extend_segment(segment, storage, ROOT)
    assert (longer.version, longer.checkpoint) == (4, segment.checkpoint)
    assert [c.first for c in longer.commits] == [2, 3, 4]


def test_a_segment_grows_over_commits_that_were_cleaned_up() -> None:
    segment: LogSegment = find_segment(log("0", "1"), ROOT)
    later = log("c5", "6")
    longer = extend_segment(segment, later, ROOT)
    assert longer.checkpoint is not None
    assert (longer.version, longer.checkpoint.version, [c.first for c in longer.commits]) == (6, 5, [6])


def test_compactions_and_commits_give_the_same_rows() -> None:
    table = TableBuilder(memory_engine(), ROOT, struct(id="long"))
    adds = [table.add({"id": [i]}) for i in range(5)]
    table.create(adds[0])
    for i in range(1, 5):
        table.commit(adds[i], {"remove": {"path": adds[i - 1]["add"]["path"], "dataChange": True}})
    plain = [rows(table.snapshot(v)) for v in range(5)]
    table.compact(1, 3)
    assert json.loads(table.engine.storage.read(table.log_file(f"{1:020d}.{3:020d}.compacted.json")).splitlines()[0])
    assert table.snapshot().segment.commits[1].last == 3
    assert [rows(table.snapshot(v)) for v in range(5)] == plain == [[(i,)] for i in range(5)]


def test_a_listing_that_lacks_a_version_which_is_there_is_made_again() -> None:
    """A directory that is listed while others write to it may show the later of two new files only."""

    class HastyStorage(MemoryStorage):
        listings = 0

        def list_from(self, directory: str, first_name: str) -> Iterator[FileStatus]:
            self.listings += 1
            files = super().list_from(directory, first_name)
            return (f for f in files if self.listings > 1 or f"{1:020d}" not in f.path)

    storage = HastyStorage()
    for version in range(3):
        storage.write(f"{ROOT}/_delta_log/{version:020d}.json", b"{}")
    assert find_segment(storage, ROOT).version == 2
    assert storage.listings == 2


@pytest.mark.parametrize("hint", [b'{"version": 1050}', b"damaged", None])
def test_a_log_of_several_pages_is_listed_from_the_hint(hint: bytes | None) -> None:
    listed: list[str] = []

    class Pages(MemoryStorage):
        def list_from(self, directory: str, first_name: str) -> Iterator[FileStatus]:
            for file in super().list_from(directory, first_name):
                listed.append(file.path)
                yield file

    storage = Pages()
    names = [f"{version:020d}.json" for version in range(1100)] + [f"{1050:020d}.checkpoint.parquet"]
    for name in names:
        storage.write(f"{ROOT}/_delta_log/{name}", b"{}")
    if hint is not None:
        storage.write(f"{ROOT}/_delta_log/_last_checkpoint", hint)
    segment = find_segment(storage, ROOT)
    assert segment.checkpoint is not None
    assert (segment.version, segment.checkpoint.version, len(segment.commits)) == (1099, 1050, 49)
    assert (listed.count(f"{ROOT}/_delta_log/{1020:020d}.json") == 0) == (hint is not None and hint != b"damaged")
    assert len(listed) == len(set(listed))
