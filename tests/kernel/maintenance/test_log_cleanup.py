"""What the log no longer needs goes; every version that is young enough stays readable."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lakeport.engine import ComposedEngine, default_engine, engine_over
from lakeport.errors import CorruptTableError
from lakeport.kernel.engine import FileStatus
from lakeport.kernel.log import read_sidecars
from lakeport.kernel.maintenance import write_checkpoint
from lakeport.kernel.maintenance.after_commit import clean_up_log, find_expired_log
from lakeport.testing.builder import TableBuilder, protocol, rows, struct

DAY = 86_400_000
NOW = 1_000 * DAY + 12 * 3_600_000
V2 = {"delta.checkpointPolicy": "v2"}


def engine_at(now: int) -> ComposedEngine:
    return engine_over(default_engine().storage, lambda: now)


def built(root: Path, ages: Sequence[float], checkpoints: list[int], **properties: str) -> TableBuilder:
    """A table whose versions were made so many days before now, checkpoints with them."""
    which = protocol(features=["v2Checkpoint"])
    table = TableBuilder(engine_at(NOW), str(root), struct(id="long"), protocol=which, properties=properties)
    for version, age in enumerate(ages):
        add = table.add({"id": [version]})
        table.commit(table.protocol, table.metadata, add) if version == 0 else table.commit(add)
        before = set(root.rglob("*"))
        if version in checkpoints:
            write_checkpoint(table.engine, table.snapshot())
        made = (set(root.rglob("*")) - before) | {root / f"_delta_log/{version:020d}.json"}
        for file in made:
            set_age(file, age)
    return table


def set_age(file: Path, days: float) -> None:
    seconds = NOW / 1000 - days * 86_400
    os.utime(file, (seconds, seconds))


def names(root: Path) -> list[str]:
    return sorted(file.name for file in (root / "_delta_log").glob("0*"))


def kept_versions(root: Path) -> list[int]:
    return [int(name[:20]) for name in names(root) if name[20:] == ".json"]


@pytest.mark.parametrize("policy", [{}, V2], ids=["classic", "v2"])
def test_the_newest_checkpoint_before_the_cutoff_stands_for_what_is_older(
    tmp_path: Path, policy: dict[str, str]
) -> None:
    ages = [50, 45, 40, 38, 36, 34, 20, 10, 1]
    table = built(tmp_path, ages, [1, 3, 6], **policy)
    expected = {version: rows(table.snapshot(version)) for version in range(3, 9)}
    deleted = clean_up_log(table.engine, table.snapshot())
    assert kept_versions(tmp_path) == [3, 4, 5, 6, 7, 8]
    assert {version: rows(table.snapshot(version)) for version in range(3, 9)} == expected
    assert not any(Path(path).exists() for path in deleted)
    assert len(deleted) == (6 if policy else 5)  # three commits, a checkpoint, its checksum and its sidecar
    assert clean_up_log(table.engine, table.snapshot()) == []


def test_the_cutoff_is_at_midnight(tmp_path: Path) -> None:
    table = built(tmp_path, [40, 35, 31, 30], [2])
    late = tmp_path / "_delta_log/00000000000000000002.json"
    for days, expected in ((30.4, [0, 1, 2, 3]), (30.6, [2, 3])):  # now it is noon
        set_age(late, days)
        clean_up_log(table.engine, table.snapshot())
        assert kept_versions(tmp_path) == expected


@pytest.mark.parametrize(
    ("properties", "checkpoints"),
    [
        ({"delta.enableExpiredLogCleanup": "false"}, [1]),
        ({"delta.logRetentionDuration": "interval 100 days"}, [1]),
        ({}, []),
        ({}, [3]),
    ],
    ids=["forbidden", "kept longer", "no checkpoint", "only a young checkpoint"],
)
def test_nothing_is_deleted_without_leave_or_a_checkpoint(
    tmp_path: Path, properties: dict[str, str], checkpoints: list[int]
) -> None:
    table = built(tmp_path, [50, 40, 35, 2], checkpoints, **properties)
    before = names(tmp_path)
    assert clean_up_log(table.engine, table.snapshot()) == []
    assert names(tmp_path) == before


def test_a_checkpoint_that_cannot_be_read_replaces_nothing(tmp_path: Path) -> None:
    table = built(tmp_path, [50, 40, 35, 2], [2])
    snapshot = table.snapshot(1)
    checkpoint = tmp_path / "_delta_log/00000000000000000002.checkpoint.parquet"
    checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    before = names(tmp_path)
    with pytest.raises(CorruptTableError):
        clean_up_log(table.engine, snapshot)
    assert names(tmp_path) == before


def test_a_checkpoint_without_its_sidecar_replaces_nothing(tmp_path: Path) -> None:
    table = built(tmp_path, [50, 40, 35, 2], [2], **V2)
    for sidecar in tmp_path.glob("_delta_log/_sidecars/*"):
        sidecar.unlink()
    before = names(tmp_path)
    with pytest.raises(CorruptTableError, match="lacks its sidecar"):
        clean_up_log(table.engine, table.snapshot())
    assert names(tmp_path) == before


def test_an_incomplete_checkpoint_counts_for_nothing_but_goes_with_the_rest(tmp_path: Path) -> None:
    table = built(tmp_path, [50, 45, 40, 35, 2], [3])
    part = tmp_path / "_delta_log" / f"{2:020d}.checkpoint.0000000001.0000000002.parquet"
    part.write_bytes(b"")
    clean_up_log(table.engine, table.snapshot())
    assert kept_versions(tmp_path) == [3, 4]
    assert not part.exists()


def test_compactions_go_with_what_they_replace(tmp_path: Path) -> None:
    table = built(tmp_path, [50, 45, 40, 35, 33, 2], [3])
    for first, last in ((0, 2), (3, 4), (4, 5)):
        table.compact(first, last)
        set_age(tmp_path / f"_delta_log/{first:020d}.{last:020d}.compacted.json", 33)
    expected = rows(table.snapshot())
    clean_up_log(table.engine, table.snapshot())
    assert [name for name in names(tmp_path) if "compacted" in name] == [f"{4:020d}.{5:020d}.compacted.json"]
    assert rows(table.snapshot()) == expected


def test_sidecars_stay_while_a_checkpoint_or_a_writer_may_need_them(tmp_path: Path) -> None:
    table = built(tmp_path, [50, 40, 35, 0.1], [0, 2], **V2 | {"delta.logRetentionDuration": "interval 0 days"})
    folder = tmp_path / "_delta_log/_sidecars"
    (needed,) = {Path(sidecar.path).name for sidecar in sidecars_of(table)}
    (superseded,) = {path.name for path in folder.iterdir()} - {needed}
    for name, age in (("being written", 1.4), ("left behind", 1.6)):  # now it is noon
        (folder / name).write_bytes(b"")
        set_age(folder / name, age)
    assert str(folder / superseded) in clean_up_log(table.engine, table.snapshot())
    assert {path.name for path in folder.iterdir()} == {needed, "being written"}
    assert rows(table.snapshot()) == [(0,), (1,), (2,), (3,)]


def sidecars_of(table: TableBuilder) -> list[FileStatus]:
    checkpoint = table.snapshot().segment.checkpoint
    assert checkpoint is not None
    return read_sidecars(table.engine, checkpoint)


def commit(version: int, time: int) -> FileStatus:
    return FileStatus(f"/t/_delta_log/{version:020d}.json", 1, time)


def checkpoint(version: int) -> FileStatus:
    return FileStatus(f"/t/_delta_log/{version:020d}.checkpoint.parquet", 1, 0)


def test_only_the_expired_part_of_the_listing_is_taken() -> None:
    def listing() -> Iterator[FileStatus]:
        yield from [commit(0, 10), checkpoint(1), commit(1, 20), commit(2, 50)]
        raise AssertionError("more is listed than needed")

    expired = find_expired_log(listing(), 30)
    assert expired is not None
    assert [file.path for file in expired.files] == [commit(0, 10).path]
    assert expired.checkpoint.version == 1


def test_a_commit_is_never_older_than_the_one_before_it() -> None:
    """A clock that went back does not make a version expire before its predecessor."""
    files = [commit(0, 100), checkpoint(1), commit(1, 20), commit(2, 110)]
    assert find_expired_log(iter(files), 50) is None
    assert find_expired_log(iter(files), 100) is None
    expired = find_expired_log(iter(files), 101)
    assert expired is not None
    assert expired.files == (commit(0, 100),)
