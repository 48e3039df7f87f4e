"""The change data feed: its files instead of those that they tell of, and when it cannot be told."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeport.errors import ChangeFeedError, VersionNotFoundError
from lakeport.testing.builder import TableBuilder, protocol, remove, struct
from tests.server.asking import (
    DELTA,
    FEED,
    PARQUET,
    VECTORS,
    built,
    changes,
    lines,
    pretended,
    service,
    table_request,
    told,
)

CDF = protocol(reader=1, writer=4)


def kinds(path: Path, start: int, capabilities: str = DELTA, **request: object) -> list[tuple[str, int]]:
    found = told(lines(changes(service(), table_request(path, capabilities), start, **request))[2:])
    return [(entry[0], entry[2]) for entry in found]


def updated(path: Path) -> TableBuilder:
    table = built(path, properties=FEED, protocol=CDF)
    table.create(pretended("a"), pretended("b"))
    table.commit(table.cdc({"id": [1]}, ["delete"]), remove(pretended("a")), pretended("c"))
    table.commit(remove(pretended("b")), pretended("d"))
    return table


def test_an_end_after_the_latest_version_is_the_latest(tmp_path: Path) -> None:
    table = updated(tmp_path / "t")
    answer = changes(service(), table_request(table.root), 1, ending_version=100)
    assert answer.details == {"startingVersion": 1, "endingVersion": 2}


def test_the_feed_has_to_be_on_in_the_whole_range(tmp_path: Path) -> None:
    table = built(tmp_path / "t", properties=FEED, protocol=CDF)
    table.create(pretended("a"))
    table.properties = {}
    table.commit(table.metadata)
    table.commit(pretended("b"))
    table.properties = FEED
    table.commit(table.metadata)
    table.commit(pretended("c"))
    for start, end in ((0, 1), (0, 4), (1, 1), (1, 3), (2, 2), (2, 4)):
        with pytest.raises(ChangeFeedError, match="not enabled"):
            kinds(tmp_path / "t", start, ending_version=end)
    assert kinds(tmp_path / "t", 0, ending_version=0) == [("add", 0)]
    assert kinds(tmp_path / "t", 3) == [("add", 4)]


@pytest.mark.parametrize("capabilities", [DELTA, PARQUET])
def test_a_remove_that_does_not_tell_its_partition_is_refused(tmp_path: Path, capabilities: str) -> None:
    table = built(tmp_path / "t", struct(id="long", day="string"), partition_by=["day"], properties=FEED, protocol=CDF)
    table.create(pretended("x", {"day": "1"}), pretended("y", {"day": "2"}))
    told_of = {"remove": remove(pretended("x"))["remove"] | {"partitionValues": {"day": "1"}}}
    table.commit(told_of)
    table.commit(remove(pretended("y")))
    assert kinds(tmp_path / "t", 0, capabilities, ending_version=1) == [("add", 0), ("add", 0), ("remove", 1)]
    with pytest.raises(ChangeFeedError, match="version 2") as caught:
        kinds(tmp_path / "t", 0, capabilities)
    assert caught.value.version == 2


def test_a_file_that_gets_another_vector_may_be_removed_without_its_partition(tmp_path: Path) -> None:
    table = built(
        tmp_path / "t", struct(id="long", day="string"), partition_by=["day"], properties=FEED, protocol=VECTORS
    )
    add = table.add({"id": [1, 2]}, {"day": "1"})
    table.create(add)
    table.commit(*table.delete(add, [0]))
    assert kinds(tmp_path / "t", 1) == [("add", 1), ("remove", 1)]


def test_changes_that_are_cleaned_up_name_the_first_that_is_left(tmp_path: Path) -> None:
    table = updated(tmp_path / "t")
    table.checkpoint(2)
    for version in (0, 1):
        Path(table.log_file(f"{version:020d}.json")).unlink()
    with pytest.raises(VersionNotFoundError) as caught:
        kinds(tmp_path / "t", 1)
    assert caught.value.earliest == 2
    assert kinds(tmp_path / "t", 2) == [("add", 2), ("remove", 2)]


def test_statistics_are_told_of_adds_only_in_parquet_format(tmp_path: Path) -> None:
    table = built(tmp_path / "t", properties=FEED, protocol=CDF)
    add = table.add({"id": [1]})
    table.create(add)
    table.commit({"remove": remove(add)["remove"] | {"size": 5, "stats": add["add"]["stats"]}})
    found = lines(changes(service(), table_request(table.root, PARQUET), 0))[2:]
    assert ["stats" in body for line in found for body in line.values()] == [True, False]
