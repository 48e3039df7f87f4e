"""The files that a clustered table orders again: those of no cube, and of cubes that are not full."""

import json
from collections.abc import Iterable

import pytest

from lakeport.kernel.clustering import cube_tags, plan_cubes
from lakeport.kernel.scan import ScanFile

COLUMNS = ["a", "b"]


def file(name: str, cube: str | None = None, columns: Iterable[str] = COLUMNS, provider: str = "liquid") -> ScanFile:
    if cube is None:
        return ScanFile(path=name, size=10)
    tags: dict[str, str | None] = {"ZCUBE_ID": cube, "ZCUBE_ZORDER_BY": json.dumps(list(columns))}
    return ScanFile(path=name, size=10, tags=tags, clustering_provider=provider)


def planned(*files: ScanFile, again: str = "", every: bool = False, full: int = 30, most: int = 1000) -> list[str]:
    bins = plan_cubes(files, COLUMNS, again=lambda f: f.path in again, every=every, full=full, most=most)
    return ["".join(sorted(file.path for file in found)) for found in bins]


def test_new_files_are_ordered_with_those_of_cubes_that_are_not_full() -> None:
    full = [file(name, "full") for name in "xyz"]
    assert planned(file("a"), file("b", "small"), file("c", "small"), *full) == ["abc"]
    assert planned(file("b", "one"), file("c", "two")) == ["bc"]


def test_one_cube_is_left_alone() -> None:
    assert planned(file("a", "one"), file("b", "one")) == []
    assert planned(*(file(name, "full") for name in "xyz"), file("a", "one")) == []
    assert planned() == []


def test_a_single_new_file_is_ordered() -> None:
    assert planned(file("a")) == ["a"]


def test_files_with_many_deleted_rows_are_rewritten() -> None:
    assert planned(*(file(name, "full") for name in "xyz"), again="y") == ["y"]
    assert planned(file("a", "one"), file("b", "one"), again="b") == ["ab"]


@pytest.mark.parametrize("other", [file("o", "other", ["b", "a"]), file("o", "other", provider="theirs")])
def test_files_in_another_order_stay_unless_every_row_is_wanted(other: ScanFile) -> None:
    assert planned(file("a", "one"), other) == []
    assert planned(file("a"), other) == ["a"]
    assert planned(file("a", "one"), other, every=True) == ["ao"]
    assert planned(other, every=True) == ["o"]
    assert planned(file("a", "one"), every=True) == []
    assert planned(other, again="o") == ["o"]


def test_a_cube_has_a_greatest_size() -> None:
    assert planned(*map(file, "abcde"), most=25) == ["ab", "cd", "e"]


def test_each_cube_has_a_name_of_its_own() -> None:
    one, two = cube_tags(["a", "`odd name`"]), cube_tags(["a"])
    assert one["ZCUBE_ID"] != two["ZCUBE_ID"]
    assert one["ZCUBE_ZORDER_BY"] == '["a","`odd name`"]'
