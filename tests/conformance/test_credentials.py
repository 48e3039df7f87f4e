"""Temporary credentials for the directory of a table."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.conformance.target import SharedTable, Target, assert_refused

pytestmark = pytest.mark.section("Generate Temporary Table Credential")

KINDS = {
    "awsTempCredentials": {"accessKeyId", "secretAccessKey", "sessionToken"},
    "azureUserDelegationSas": {"sasToken"},
    "gcpOauthToken": {"oauthToken"},
}


def generate(table: SharedTable, **body: Any) -> dict[str, Any]:
    response = table.request("POST", "/temporary-table-credentials", json=body).response
    assert response.status_code == 200, response.text
    content: dict[str, Any] = response.json()
    assert set(content) == {"credentials"}
    return dict(content["credentials"])


@pytest.mark.section("TemporaryCredentials", "AwsCredentials")
def test_credentials_are_of_one_kind_for_one_place_and_for_a_while(target: Target) -> None:
    credentials = generate(target.table("directory"))
    (kind,) = set(credentials) - {"location", "expirationTime"}
    assert set(credentials[kind]) == KINDS[kind]
    assert all(isinstance(value, str) and value for value in credentials[kind].values())
    assert credentials["expirationTime"] > time.time() * 1000


def test_without_a_location_they_are_for_the_table(target: Target) -> None:
    directory = target.table("directory")
    assert generate(directory)["location"] == directory.location
    assert generate(directory, location=directory.location)["location"] == directory.location


def test_an_auxiliary_location_may_be_asked_for(own: Target) -> None:
    directory = own.table("directory")
    assert generate(directory, location=f"{directory.location}-more")["location"] == f"{directory.location}-more"


def test_no_body_asks_for_the_table(target: Target) -> None:
    directory = target.table("directory")
    response = directory.request("POST", "/temporary-table-credentials").response
    assert response.json()["credentials"]["location"] == directory.location


@pytest.mark.section("Errors")
def test_another_place_is_refused(target: Target) -> None:
    directory = target.table("directory")
    for location in ("s3://bucket/other", f"{directory.location}/../x", "s3://bucket", "nothing"):
        response = directory.request("POST", "/temporary-table-credentials", json={"location": location}).response
        assert 400 <= response.status_code < 500
        assert response.json()["errorCode"]


@pytest.mark.section("Errors")
def test_a_table_that_is_read_by_urls_has_no_credentials(plain: SharedTable) -> None:
    response = plain.request("POST", "/temporary-table-credentials", json={}).response
    assert 400 <= response.status_code < 500
    assert set(response.json()) == {"errorCode", "message"}


@pytest.mark.section("Errors")
def test_a_body_that_cannot_be_read_is_refused(target: Target) -> None:
    for body in (b"{", b'{"location": 5}', b"[]"):
        refused = target.table("directory").request("POST", "/temporary-table-credentials", data=body)
        assert_refused(refused, 400, "MALFORMED_REQUEST")
