"""Queries with startingVersion: what commits did to files, commit by commit and page by page."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lakeport.errors import SharingError, UnsupportedFeatureError
from lakeport.server.answers.answer_lines import Answer
from lakeport.sharing.models import ChangesRequest
from lakeport.testing.builder import TableBuilder, mapped, protocol, remove, struct
from tests.server.asking import (
    DELTA,
    FEED,
    PARQUET,
    VECTORS,
    Clock,
    Line,
    built,
    changes,
    ids,
    lines,
    pages,
    pretended,
    query,
    service,
    table_request,
    told,
)

CDF = protocol(reader=1, writer=4)
MAPPED = protocol(features=["columnMapping"], writer_only=["changeDataFeed"])


def metadata_between(path: Path) -> TableBuilder:
    """Commits of metadata alone at the beginning, between those of files, one after the other, and at the end."""
    table = built(path, properties=FEED, protocol=CDF)
    table.create()
    table.commit(table.metadata)
    table.commit(*(pretended(f"2-{number}") for number in range(3)))
    table.commit(table.metadata)
    table.commit(table.metadata)
    table.commit(pretended("5-0"), table.metadata, pretended("5-1"))
    table.commit({"commitInfo": {}})
    table.commit(*(pretended(f"7-{number}") for number in range(2)), remove(pretended("2-0")))
    table.commit(table.metadata)
    return table


def vectors_replaced(path: Path) -> TableBuilder:
    table = built(path, properties=FEED, protocol=VECTORS)
    adds = [table.add({"id": [number, number + 100, number + 200]}) for number in range(4)]
    table.create(*adds)
    first = [table.delete(add, [0]) for add in adds]
    table.commit(*(action for pair in first for action in pair))
    table.commit(*table.delete(first[0][1], [0, 1], "i"), table.add({"id": [9]}))
    return table


def several_batches(path: Path) -> TableBuilder:
    """Adds and removes of one commit in turn."""
    table = built(path, properties=FEED, protocol=CDF)
    table.create(*(pretended(f"old-{number}") for number in range(6)))
    mixed = [action for n in range(6) for action in (remove(pretended(f"old-{n}")), pretended(f"new-{n}"))]
    table.commit(*mixed)
    return table


def files_of_changes(path: Path) -> TableBuilder:
    table = built(path, properties=FEED, protocol=CDF)
    table.create(pretended("a"), pretended("b"))
    table.commit(
        *(table.cdc({"id": [number]}, ["delete"]) for number in range(3)), remove(pretended("a")), pretended("c")
    )
    table.commit(table.metadata, pretended("d"))
    return table


TABLES = [metadata_between, vectors_replaced, several_batches, files_of_changes]


@pytest.mark.parametrize("build", TABLES)
@pytest.mark.parametrize("feed", [False, True])
@pytest.mark.parametrize("metadata", [False, True])
def test_pages_of_any_size_make_up_the_whole(tmp_path: Path, build: Any, feed: bool, metadata: bool) -> None:
    table = build(tmp_path / "t")
    to, by = service(), table_request(table.root)
    request: dict[str, Any] = {"include_historical_metadata": metadata} if feed else {"starting_version": 0}
    whole = next(iter(pages(to, by, 10_000, 0 if feed else None, **request)))
    assert len(ids(whole)) > 3
    for size in range(1, len(ids(whole)) + 2):
        found = list(pages(to, by, size, 0 if feed else None, **request))
        assert [entry for page in found for entry in told(page[2:])] == told(whole[2:])
        assert all(page[:2] == whole[:2] for page in found)
        assert [len(ids(page[2:])) for page in found[:-1]] == [size] * (len(found) - 1)


@pytest.mark.parametrize("start", range(9))
def test_every_window_is_a_part_of_the_whole(tmp_path: Path, start: int) -> None:
    table = metadata_between(tmp_path / "t")
    to, by = service(), table_request(table.root)
    whole = told(lines(query(to, by, starting_version=0))[2:])
    for end in range(start, 9):
        found = lines(query(to, by, starting_version=start, ending_version=end))
        versions = range(start, end + 1)
        expected = [
            entry
            for entry in whole
            if (entry[1] if entry[0] == "metadata" else entry[2]) in versions and entry != ("metadata", start)
        ]
        assert told(found[2:]) == expected
        assert found[1]["metaData"]["version"] == start


def test_the_metadata_of_a_commit_come_before_its_files(tmp_path: Path) -> None:
    table = metadata_between(tmp_path / "t")
    found, parquet = (
        told(lines(query(service(), table_request(table.root, capabilities), starting_version=0))[2:])
        for capabilities in (DELTA, PARQUET)
    )
    versions = [entry[1] if entry[0] == "metadata" else entry[2] for entry in found]
    assert versions == [entry[1] if entry[0] == "metadata" else entry[2] for entry in parquet] == sorted(versions)
    assert [entry[0] for entry in found] == [entry[0] for entry in parquet]
    assert all(first != second for first, second in pairwise(found))
    assert found[versions.index(5)] == ("metadata", 5)


def test_a_commit_of_many_files_is_told_whole(tmp_path: Path) -> None:
    table = built(tmp_path / "t")
    table.create(*(pretended(f"{number:05d}") for number in range(4500)))
    table.commit(*(remove(pretended(f"{number:05d}")) for number in range(2500)))
    to, by = service(), table_request(table.root)
    whole = ids(lines(query(to, by, starting_version=0))[2:])
    assert (len(whole), len(set(whole))) == (7000, 4500)
    paged = [ids(page[2:]) for page in pages(to, by, 1999, starting_version=0)]
    assert [len(page) for page in paged] == [1999, 1999, 1999, 1003]
    assert [file for page in paged for file in page] == whole


def sizes(found: list[Line]) -> list[tuple[int, int]]:
    removed = [line["file"] for line in found if "remove" in line.get("file", {}).get("deltaSingleAction", {})]
    return [(line["size"], line["deltaSingleAction"]["remove"]["size"]) for line in removed]


def test_a_remove_without_a_size_gets_that_of_the_file(tmp_path: Path) -> None:
    table = built(tmp_path / "t")
    add = table.add({"id": [1]})
    table.create(add, pretended("gone"))
    table.commit(remove(add), remove(pretended("gone")), {"remove": remove(pretended("told"))["remove"] | {"size": 5}})
    to = service()
    size = add["add"]["size"]
    found = lines(query(to, table_request(table.root), starting_version=1))
    assert sorted(sizes(found)) == sorted([(size, size), (0, 0), (5, 5)])
    plain = lines(query(to, table_request(table.root, PARQUET), starting_version=1))
    assert sorted(line["remove"]["size"] for line in plain[2:]) == sorted([size, 0, 5])


def test_a_remove_without_partition_values_has_none_in_a_stream(tmp_path: Path) -> None:
    table = built(tmp_path / "t", struct(id="long", day="string"), partition_by=["day"])
    table.create(pretended("x", {"day": "1"}))
    table.commit(remove(pretended("x")))
    (line,) = lines(query(service(), table_request(table.root, PARQUET), starting_version=1))[2:]
    assert line["remove"]["partitionValues"] == {}


class TickingClock(Clock):
    """Whatever is signed later has another URL."""

    def __call__(self) -> float:
        self.now += 1
        return self.now


def test_a_file_that_gets_another_vector_has_one_url_in_its_commit(tmp_path: Path) -> None:
    table = vectors_replaced(tmp_path / "t")
    found = lines(query(service(TickingClock()), table_request(table.root), starting_version=1))[2:]
    by_id: dict[tuple[str, int], set[str]] = {}
    for line in found:
        (action,) = line["file"]["deltaSingleAction"].values()
        by_id.setdefault((line["file"]["id"], line["file"]["version"]), set()).add(action["path"])
    assert len(by_id) == 6
    assert all(len(urls) == 1 for urls in by_id.values())


def test_vectors_in_files_are_signed_and_inline_ones_stay(tmp_path: Path) -> None:
    table = vectors_replaced(tmp_path / "t")
    found = lines(query(service(), table_request(table.root), starting_version=2))[2:]
    kinds = {}
    for line in found:
        ((kind, action),) = line["file"]["deltaSingleAction"].items()
        vector = action.get("deletionVector")
        if vector:
            kinds[kind] = (vector["storageType"], "deletionVectorFileId" in line["file"])
            assert vector["pathOrInlineDv"].startswith("http://") == (vector["storageType"] == "p")
    assert kinds == {"add": ("i", False), "remove": ("p", True)}


def test_columns_are_told_by_their_physical_names(tmp_path: Path) -> None:
    table = built(
        tmp_path / "t",
        mapped(struct(id="long", day="string")),
        partition_by=["day"],
        properties={"delta.columnMapping.mode": "name"},
        protocol=protocol(reader=2, writer=5),
    )
    add = table.add({"col-1": [1]}, {"col-2": "1"})
    table.create(add)
    table.commit({"remove": remove(add)["remove"] | {"partitionValues": {"col-2": "1"}}})
    found = lines(query(service(), table_request(table.root), starting_version=0))[2:]
    for line in found:
        (action,) = line["file"]["deltaSingleAction"].values()
        assert action["partitionValues"] == {"col-2": "1"}


def test_a_feature_that_comes_within_the_range_has_to_be_declared(tmp_path: Path) -> None:
    table = built(tmp_path / "t")
    table.create(pretended("a"))
    table.commit(protocol(features=["deletionVectors"]))
    table.commit(pretended("b"))
    to = service()
    by = table_request(table.root, "responseformat=delta")
    with pytest.raises(SharingError, match="deletionVectors"):
        query(to, by, starting_version=0)
    assert query(to, by, starting_version=0, ending_version=0).version == 0
    assert len(told(lines(query(to, table_request(table.root), starting_version=0))[2:])) == 2


@pytest.mark.parametrize("feed", [False, True], ids=["stream", "changes"])
def test_parquet_format_is_for_ranges_whose_files_have_no_vectors(tmp_path: Path, feed: bool) -> None:
    table = built(tmp_path / "t", properties=FEED, protocol=VECTORS)
    first = table.add({"id": [1, 2, 3]})
    table.create(first)
    table.commit(table.add({"id": [4]}))
    table.commit(*table.delete(first, [0]))
    to, by = service(), table_request(table.root, PARQUET)

    def asked(start: int, end: int, **request: Any) -> Answer:
        if feed:
            return changes(to, by, start, ending_version=end, **request)
        return query(to, by, starting_version=start, ending_version=end, **request)

    assert asked(0, 1).response_format == "parquet"
    assert [entry[0] for entry in told(lines(asked(0, 1))[2:])] == ["add", "add"]
    assert len(ids(lines(asked(0, 1, max_files=1)))) == 1
    for start in (0, 2):
        with pytest.raises(SharingError, match="uses deletionVectors"):
            asked(start, 2)


def test_a_feature_that_the_server_does_not_know_is_refused_though_it_was_taken_away_again(tmp_path: Path) -> None:
    table = built(tmp_path / "t")
    table.create(pretended("a"))
    table.commit(protocol(features=["someday"]))
    table.commit(protocol())
    with pytest.raises(UnsupportedFeatureError, match="someday"):
        query(service(), table_request(table.root), starting_version=0)


@pytest.mark.parametrize(
    ("protocols", "features"),
    [
        ([CDF, CDF], None),
        ([CDF, VECTORS], {"deletionVectors"}),
        ([VECTORS, CDF], {"deletionVectors"}),
        ([VECTORS, MAPPED, CDF], {"deletionVectors", "columnMapping"}),
        ([MAPPED, VECTORS], {"deletionVectors", "columnMapping"}),
    ],
    ids=["none", "begun", "ended", "both, ended", "one after the other"],
)
@pytest.mark.parametrize("feed", [False, True], ids=["stream", "changes"])
def test_the_protocol_is_one_by_which_all_files_of_the_range_can_be_read(
    tmp_path: Path, protocols: list[Line], features: set[str] | None, feed: bool
) -> None:
    table = built(tmp_path / "t", properties=FEED, protocol=protocols[0])
    table.create(pretended("a"))
    for number, later in enumerate(protocols[1:]):
        table.commit(later)
        table.commit(pretended(f"b-{number}"))
    to, by = service(), table_request(table.root)
    for historical in (False, True):
        asked = (
            to.changes(by, ChangesRequest(starting_version=0, include_historical_metadata=historical))
            if feed
            else query(to, by, starting_version=0)
        )
        told_protocols = [line["protocol"]["deltaProtocol"] for line in lines(asked) if "protocol" in line]
        assert len(told_protocols) == 1
        body = told_protocols[0]
        assert set(body.get("readerFeatures", ())) == (features or set())
        assert body["minReaderVersion"] == (3 if features else 1)
        if features:
            assert {*features, "changeDataFeed"} == set(body["writerFeatures"])
