"""Names of shares, schemas and tables, and who may see what they name."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import requests

from tests.conformance.serving import EXPIRED_TOKEN, OTHER_TOKEN
from tests.conformance.target import SharedTable, Target, assert_refused

CALLS: dict[str, Callable[[SharedTable, str | None], requests.Response]] = {
    "shares": lambda t, token: t.target.request("GET", "shares", token=token),
    "share": lambda t, token: t.target.request("GET", f"shares/{t.share}", token=token),
    "schemas": lambda t, token: t.target.request("GET", f"shares/{t.share}/schemas", token=token),
    "tables": lambda t, token: t.target.request("GET", f"shares/{t.share}/schemas/{t.schema}/tables", token=token),
    "all-tables": lambda t, token: t.target.request("GET", f"shares/{t.share}/all-tables", token=token),
    "version": lambda t, token: t.target.request("GET", f"{t.path}/version", token=token),
    "metadata": lambda t, token: t.target.request("GET", f"{t.path}/metadata", token=token),
    "query": lambda t, token: t.target.request("POST", f"{t.path}/query", token=token, json={}),
    "changes": lambda t, token: t.target.request("GET", f"{t.path}/changes?startingVersion=0", token=token),
    "credentials": lambda t, token: t.target.request(
        "POST", f"{t.path}/temporary-table-credentials", token=token, json={}
    ),
}

every_call = pytest.mark.parametrize("call", list(CALLS))


@pytest.mark.section("Names")
@pytest.mark.parametrize("spell", [str.upper, str.lower, str.swapcase])
def test_names_have_no_case(plain: SharedTable, spell: Callable[[str], str]) -> None:
    spelled = SharedTable(plain.target, spell(plain.share), spell(plain.schema), spell(plain.name), None)
    for call in ("share", "schemas", "tables", "all-tables", "metadata"):
        assert CALLS[call](spelled, plain.target.token).text == CALLS[call](plain, plain.target.token).text
    assert spelled.version().version == plain.version().version
    assert [f.body["id"] for f in spelled.query().files] == [f.body["id"] for f in plain.query().files]


@pytest.mark.section("Names")
def test_names_keep_to_what_is_allowed(plain: SharedTable) -> None:
    forbidden = {" ", "/", "\x7f", *map(chr, range(32))}
    for share in plain.target.get("shares").json()["items"]:
        assert 0 < len(share["name"]) <= 255
        assert not forbidden & set(share["name"])
        for table in plain.target.get(f"shares/{share['name']}/all-tables").json().get("items", []):
            for name in (table["schema"], table["name"]):
                assert 0 < len(name) <= 255
                assert not (forbidden | {"."}) & set(name)


@pytest.mark.section("Names")
def test_the_name_of_a_share_may_have_a_period(own: Target) -> None:
    assert own.get("shares/Other.Share").json()["share"]["name"] == "other.share"


@pytest.mark.section("REST APIs", "Errors")
@every_call
@pytest.mark.parametrize("token", [None, "not a token", "", "Bearer"])
def test_without_a_good_token_nothing_is_answered(plain: SharedTable, call: str, token: str | None) -> None:
    response = CALLS[call](plain, token)
    assert_refused(response, 401, "UNAUTHENTICATED")
    assert response.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.section("REST APIs")
@pytest.mark.parametrize("header", ["Bearer {}", "bearer {}", "bEARER  {}"])
def test_the_word_bearer_has_no_case(target: Target, header: str) -> None:
    headers = {"Authorization": header.format(target.token)}
    assert target.request("GET", "shares", token=None, headers=headers).status_code == 200


@pytest.mark.section("REST APIs", "Errors")
@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic {}", "Basic dG9rZW4=", "Token {}", "{}"])
def test_other_schemes_do_not_count(target: Target, header: str) -> None:
    headers = {"Authorization": header.format(target.token)}
    assert_refused(target.request("GET", "shares", token=None, headers=headers), 401, "UNAUTHENTICATED")


@pytest.mark.section("REST APIs", "Errors")
def test_an_expired_token_is_refused(own: Target) -> None:
    assert_refused(own.request("GET", "shares", token=EXPIRED_TOKEN), 401, "UNAUTHENTICATED")


@pytest.mark.section("Errors")
@pytest.mark.parametrize("wrong", ["share", "schema", "name"])
@pytest.mark.parametrize("call", [name for name in CALLS if name != "shares"])
def test_what_there_is_not_is_404(plain: SharedTable, call: str, wrong: str) -> None:
    if wrong == "name" and call in ("share", "schemas", "tables", "all-tables"):
        return
    if wrong == "schema" and call in ("share", "schemas", "all-tables"):
        return
    names = {name: getattr(plain, name) for name in ("share", "schema", "name")} | {wrong: "no-such-thing"}
    absent = SharedTable(plain.target, names["share"], names["schema"], names["name"], None)
    assert_refused(CALLS[call](absent, plain.target.token), 404, "RESOURCE_DOES_NOT_EXIST")


@pytest.mark.section("Errors")
@pytest.mark.parametrize("call", [name for name in CALLS if name != "shares"])
def test_what_is_not_granted_does_not_exist(own: Target, call: str) -> None:
    hidden = own.table("unshared")
    refused = CALLS[call](hidden, own.token)
    assert_refused(refused, 404, "RESOURCE_DOES_NOT_EXIST")
    absent = SharedTable(own, "hiddem", hidden.schema, hidden.name, None)
    assert refused.text.replace("hidden", "hiddem") == CALLS[call](absent, own.token).text


@pytest.mark.section("Errors")
def test_recipients_see_their_own_shares(own: Target) -> None:
    assert own.request("GET", "shares/other.share").status_code == 200
    assert_refused(own.request("GET", "shares/other.share", token=OTHER_TOKEN), 404, "RESOURCE_DOES_NOT_EXIST")
