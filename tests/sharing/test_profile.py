"""Profiles: every kind is read and written, and secrets are not told."""

import json
from pathlib import Path
from typing import Any

import pytest

from lakeport.sharing.profile import (
    Basic,
    BearerToken,
    OAuthClientCredentials,
    OAuthPrivateKeyJwt,
    Profile,
    format_profile,
    parse_profile,
    read_profile,
)

URL = "https://sharing.example.com/delta-sharing"
V1 = {"shareCredentialsVersion": 1, "endpoint": f"{URL}/", "bearerToken": "s3cret"}
OAUTH = {"tokenEndpoint": "https://login.example.com/token", "clientId": "me", "clientSecret": "s3cret"}
KEY = {"privateKeyFile": "/keys/me.pem", "keyId": "k1", "algorithm": "RS256"}
AUTH = {"tokenEndpoint": "https://login.example.com/token", "issuer": "i", "clientId": "me", "audience": "a"}

KINDS: list[tuple[dict[str, Any], Any]] = [
    (V1, BearerToken(token="s3cret")),
    (
        V1 | {"expirationTime": "2021-11-12T00:12:29.0Z"},
        BearerToken(token="s3cret", expiration_time="2021-11-12T00:12:29.0Z"),
    ),
    (V1 | {"shareCredentialsVersion": 2, "type": "bearer_token"}, BearerToken(token="s3cret")),
    (
        {"shareCredentialsVersion": 2, "type": "basic", "endpoint": URL, "username": "me", "password": "s3cret"},
        Basic(username="me", password="s3cret"),
    ),
    (
        {"shareCredentialsVersion": 2, "type": "oauth_client_credentials", "endpoint": URL, "scope": "x", **OAUTH},
        OAuthClientCredentials(
            token_endpoint="https://login.example.com/token", client_id="me", client_secret="s3cret", scope="x"
        ),
    ),
    (
        {
            **{"shareCredentialsVersion": 2, "type": "oauth_jwt_bearer_private_key_jwt", "endpoint": URL},
            "auth": {**AUTH, "privateKey": KEY},
        },
        OAuthPrivateKeyJwt(
            token_endpoint="https://login.example.com/token",
            issuer="i",
            client_id="me",
            audience="a",
            private_key_file="/keys/me.pem",
            key_id="k1",
            algorithm="RS256",
        ),
    ),
]


@pytest.mark.parametrize(("body", "credentials"), KINDS)
def test_every_kind_is_read_and_written(body: dict[str, Any], credentials: Any) -> None:
    profile = parse_profile(json.dumps(body))
    assert profile == Profile(endpoint=URL, credentials=credentials, version=body["shareCredentialsVersion"])
    assert json.loads(format_profile(profile)) == body | {"endpoint": URL}
    assert parse_profile(format_profile(profile)) == profile


@pytest.mark.parametrize("body", [body for body, _ in KINDS if "s3cret" in str(body)])
def test_no_secret_is_shown(body: dict[str, Any]) -> None:
    assert "s3cret" not in repr(parse_profile(json.dumps(body)))


def test_a_profile_is_text_or_a_file(tmp_path: Path) -> None:
    path = tmp_path / "config.share"
    path.write_text(json.dumps(V1))
    assert read_profile(path) == read_profile(str(path)) == read_profile(f"\n {json.dumps(V1)}")
    with pytest.raises(FileNotFoundError, match=r"no profile at .*nothing"):
        read_profile(tmp_path / "nothing.share")


def test_a_token_expires() -> None:
    profile = parse_profile(json.dumps(V1 | {"expirationTime": "1970-01-01T00:00:01.0Z"}))
    assert profile.expires == 1000
    assert not profile.is_expired(999)
    assert profile.is_expired(1000)
    assert parse_profile(json.dumps(V1)).expires is None
    assert not parse_profile(json.dumps(V1)).is_expired(10**15)


def test_options_of_a_reader_may_be_all_text() -> None:
    assert parse_profile(json.dumps(V1 | {"shareCredentialsVersion": "1"})).version == 1


@pytest.mark.parametrize(
    "change",
    [
        {"bearerToken": f" {V1['bearerToken']}\r\n"},
        {"endpoint": f"\t{URL}/\n"},
        {"endpoint": f"{URL}//"},
        {"shareCredentialsVersion": 1.0},
    ],
    ids=str,
)
def test_blanks_slashes_and_forms_of_a_number_do_not_matter(change: dict[str, Any]) -> None:
    assert parse_profile(json.dumps(V1 | change)) == parse_profile(json.dumps(V1))


def test_the_mark_that_editors_put_before_text_does_not_matter(tmp_path: Path) -> None:
    text = "\ufeff" + json.dumps(V1)
    path = tmp_path / "config.share"
    path.write_text(text, encoding="utf-8")
    assert read_profile(text) == read_profile(path) == parse_profile(json.dumps(V1))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("s3cret", "is not a JSON object"),
        ("[]", "is not a JSON object"),
        ("[" * 100_000, "is not a JSON object"),
        ({}, "no valid shareCredentialsVersion"),
        (V1 | {"shareCredentialsVersion": True}, "no valid shareCredentialsVersion"),
        (V1 | {"shareCredentialsVersion": 0}, "no valid shareCredentialsVersion"),
        (V1 | {"shareCredentialsVersion": 1.5}, "no valid shareCredentialsVersion"),
        (V1 | {"shareCredentialsVersion": 3}, "upgrade Lakeport"),
        (V1 | {"endpoint": ""}, "no endpoint"),
        (V1 | {"endpoint": "s3cret"}, "endpoint that is not an http or https URL"),
        (V1 | {"endpoint": f"{URL}?s3cret"}, "a query or a fragment"),
        (V1 | {"endpoint": f"{URL}#s3cret"}, "a query or a fragment"),
        (V1 | {"endpoint": "https://s3cret\\@example.com"}, "endpoint that is not an http or https URL"),
        (V1 | {"bearerToken": ""}, "no bearerToken"),
        (V1 | {"bearerToken": " "}, "characters that headers do not allow"),
        (V1 | {"bearerToken": "s3cret\r\nX-More: 1"}, "characters that headers do not allow"),
        (V1 | {"bearerToken": "s3crét"}, "characters that headers do not allow"),
        (V1 | {"bearerToken": ["s3cret"]}, "bearerToken that is not text"),
        (V1 | {"expirationTime": "soon"}, "expirationTime is not a timestamp: 'soon'"),
        (V1 | {"shareCredentialsVersion": 2}, "no type"),
        (V1 | {"shareCredentialsVersion": 2, "type": "magic"}, "type 'magic'; use one of bearer_token, basic"),
        ({"shareCredentialsVersion": 2, "type": "basic", "endpoint": URL, "username": "me"}, "no password"),
        ({"shareCredentialsVersion": 2, "type": "oauth_jwt_bearer_private_key_jwt", "endpoint": URL}, "no auth"),
        (
            {**KINDS[-1][0], "auth": {**AUTH, "privateKey": {}}},
            "privateKey in auth in the profile has no privateKeyFile",
        ),
    ],
)
def test_what_is_no_profile_is_refused_with_the_reason(body: Any, reason: str) -> None:
    with pytest.raises(ValueError, match="the profile") as refused:
        parse_profile(body if isinstance(body, str) else json.dumps(body))
    assert reason in str(refused.value)
    assert "s3cret" not in str(refused.value)
