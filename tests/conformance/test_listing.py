"""Shares, schemas and tables: what a recipient is shown, page by page."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.conformance.serving import OTHER_TOKEN
from tests.conformance.target import SharedTable, Target, assert_refused

LISTS = {
    "List Shares": "shares",
    "List Schemas in a Share": "shares/{share}/schemas",
    "List Tables in a Schema": "shares/{share}/schemas/{schema}/tables",
    "List all Tables in a Share": "shares/{share}/all-tables",
}

pytestmark = pytest.mark.section(*LISTS)

each_list = pytest.mark.parametrize("path", list(LISTS.values()), ids=[name.replace(" ", "-") for name in LISTS])


def path_in(plain: SharedTable, path: str) -> str:
    """The path of a list; of schemas, those of a share that has several where the server is the suite's own."""
    share = "Zoo" if plain.target.own and path.endswith("}/schemas") else plain.share
    return path.format(share=share, schema=plain.schema)


def pages(target: Target, path: str, size: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    token: str | None = None
    while True:
        page = target.get(path, maxResults=size, **({"pageToken": token} if token else {})).json()
        items = page.get("items", [])
        assert len(items) <= size
        found += items
        token = page.get("nextPageToken")
        if not token:
            return found
        assert re.fullmatch(r"[\w.~-]+", token, re.ASCII)


@each_list
def test_a_list_is_json(plain: SharedTable, path: str) -> None:
    response = plain.target.get(path_in(plain, path))
    assert response.status_code == 200
    assert response.headers["Content-Type"].replace(" ", "").lower() == "application/json;charset=utf-8"
    assert set(response.json()) <= {"items", "nextPageToken"}


@each_list
@pytest.mark.parametrize("size", [1, 2])
def test_pages_make_up_the_list(plain: SharedTable, path: str, size: int) -> None:
    where = path_in(plain, path)
    whole = plain.target.get(where).json()["items"]
    plain.target.requires(f"two items in {where}", present=len(whole) > 1)
    assert pages(plain.target, where, size) == whole


@each_list
def test_the_last_page_has_no_token(plain: SharedTable, path: str) -> None:
    assert not plain.target.get(path_in(plain, path), maxResults=500).json().get("nextPageToken")


@each_list
def test_of_0_results_there_are_none_but_a_token_to_go_on(plain: SharedTable, path: str) -> None:
    where = path_in(plain, path)
    page = plain.target.get(where, maxResults=0).json()
    assert not page.get("items")
    if page.get("nextPageToken"):
        rest = plain.target.get(where, pageToken=page["nextPageToken"]).json()
        assert rest["items"] == plain.target.get(where).json()["items"]


@each_list
@pytest.mark.section("Errors")
@pytest.mark.parametrize("size", ["-1", "501", "many", "1.5", "", "9" * 30, "٣"])
def test_a_number_of_results_that_makes_no_sense_is_refused(plain: SharedTable, path: str, size: str) -> None:
    assert_refused(plain.target.get(path_in(plain, path), maxResults=size), 400, "INVALID_PARAMETER_VALUE")


@each_list
@pytest.mark.section("Errors")
def test_a_page_token_that_was_made_up_is_refused(plain: SharedTable, path: str) -> None:
    refused = plain.target.get(path_in(plain, path), pageToken="bm90IGEgdG9rZW4")
    assert_refused(refused, 400, "INVALID_PARAMETER_VALUE")


@pytest.mark.section("Errors")
def test_a_page_token_of_another_list_is_refused(plain: SharedTable) -> None:
    shares = [share["name"] for share in plain.target.get("shares").json()["items"]]
    lists = ["shares", *(f"shares/{share}/all-tables" for share in shares)]
    for path in ("shares", f"shares/{plain.share}/all-tables"):
        token = plain.target.get(path, maxResults=0).json().get("nextPageToken")
        plain.target.requires(f"pages of {path}", present=bool(token))
        for other in lists:
            if other.lower() != path.lower():
                assert_refused(plain.target.get(other, pageToken=token), 400, "INVALID_PARAMETER_VALUE")


@pytest.mark.section("Errors")
def test_a_page_token_of_another_recipient_is_refused(own: Target) -> None:
    token = own.get("shares", maxResults=1).json()["nextPageToken"]
    refused = own.request("GET", "shares", token=OTHER_TOKEN, params={"pageToken": token})
    assert_refused(refused, 400, "INVALID_PARAMETER_VALUE")


@pytest.mark.section("List Shares")
def test_a_share_has_a_name_and_may_have_more(plain: SharedTable) -> None:
    for share in plain.target.get("shares").json()["items"]:
        assert share["name"]
        assert set(share) <= {"name", "id", "displayName", "comment", "properties"}
        assert all(isinstance(value, str) for value in share.get("properties", {}).values())


@pytest.mark.section("List Shares")
def test_ids_of_shares_are_unique_and_stay(plain: SharedTable) -> None:
    ids = [share["id"] for share in plain.target.get("shares").json()["items"] if "id" in share]
    assert len(set(ids)) == len(ids)
    assert ids == [share["id"] for share in plain.target.get("shares").json()["items"] if "id" in share]


@pytest.mark.section("List Shares", "Get Share")
def test_everything_that_is_said_of_a_share_is_shown(own: Target) -> None:
    expected = {
        "name": "Conformance",
        "id": "7a1c3f0e-0001-4000-8000-000000000001",
        "displayName": "Conformance of servers",
        "comment": "tables for every rule",
        "properties": {"owner": "tests"},
    }
    assert own.get("shares").json()["items"][0] == expected
    assert own.get("shares/conformance").json() == {"share": expected}


@pytest.mark.section("Get Share")
def test_a_share_is_the_one_of_the_list(plain: SharedTable) -> None:
    response = plain.target.get(f"shares/{plain.share}")
    assert response.headers["Content-Type"].replace(" ", "").lower() == "application/json;charset=utf-8"
    assert set(response.json()) == {"share"}
    assert response.json()["share"] in plain.target.get("shares").json()["items"]


@pytest.mark.section("List Schemas in a Share")
def test_a_schema_has_its_name_and_that_of_the_share(plain: SharedTable) -> None:
    items = plain.target.get(f"shares/{plain.share}/schemas").json()["items"]
    assert all(set(item) == {"name", "share"} for item in items)
    assert {item["share"].lower() for item in items} == {plain.share.lower()}
    assert plain.schema.lower() in {item["name"].lower() for item in items}


@pytest.mark.section("List Schemas in a Share", "List Tables in a Schema")
def test_a_schema_without_tables_has_an_empty_list(own: Target) -> None:
    assert own.get("shares/other.share/schemas").json()["items"] == [{"name": "bare", "share": "other.share"}]
    assert own.get("shares/other.share/schemas/bare/tables").json().get("items", []) == []
    assert own.get("shares/other.share/all-tables").json().get("items", []) == []


@pytest.mark.section("List Tables in a Schema", "List all Tables in a Share")
def test_a_table_has_its_names_and_may_have_more(plain: SharedTable) -> None:
    allowed = {"name", "schema", "share", "shareId", "id", "location", "auxiliaryLocations", "accessModes"}
    for path in (f"shares/{plain.share}/schemas/{plain.schema}/tables", f"shares/{plain.share}/all-tables"):
        items = plain.target.get(path).json()["items"]
        assert plain.name.lower() in {item["name"].lower() for item in items}
        for item in items:
            assert {"name", "schema", "share"} <= set(item) <= allowed
            assert set(item.get("accessModes", ["url"])) <= {"url", "dir"}
            assert item.get("accessModes") != []
        ids = [item["id"] for item in items if "id" in item]
        assert len(set(ids)) == len(ids)


@pytest.mark.section("List all Tables in a Share")
def test_all_tables_are_those_of_all_schemas(plain: SharedTable) -> None:
    share = "Zoo" if plain.target.own else plain.share
    schemas = [item["name"] for item in plain.target.get(f"shares/{share}/schemas").json()["items"]]
    listed = [
        item
        for schema in schemas
        for item in plain.target.get(f"shares/{share}/schemas/{schema}/tables").json().get("items", [])
    ]
    found = plain.target.get(f"shares/{share}/all-tables").json()["items"]
    assert sorted(found, key=repr) == sorted(listed, key=repr)


@pytest.mark.section("List Tables in a Schema")
def test_a_table_that_can_be_read_by_directory_shows_where_it_is(target: Target) -> None:
    directory = target.table("directory")
    items = target.get(f"shares/{directory.share}/schemas/{directory.schema}/tables").json()["items"]
    (shown,) = [item for item in items if item["name"] == directory.name]
    assert "dir" in shown["accessModes"]
    assert shown["location"] == directory.location
    assert all("://" in location for location in shown.get("auxiliaryLocations", []))


@pytest.mark.section("List Shares")
def test_what_is_not_granted_is_not_listed(own: Target) -> None:
    def names(token: str) -> set[str]:
        return {share["name"] for share in own.request("GET", "shares", token=token).json()["items"]}

    assert names(own.token) == {"Conformance", "other.share", "Zoo"}
    assert names(OTHER_TOKEN) == {"Conformance", "Zoo"}


@pytest.mark.section("What clients need")
@each_list
def test_a_list_is_one_line(plain: SharedTable, path: str) -> None:
    assert len(plain.target.get(path_in(plain, path)).text.splitlines()) == 1
