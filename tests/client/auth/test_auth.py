"""The credentials of profiles: tokens are sent, renewed in time and after a refusal, and never told."""

import base64
import json
import threading
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from lakeport.client.auth import authorization
from lakeport.client.http.retrying import RetryOptions
from lakeport.client.rest.server import SharingServer
from lakeport.errors import AuthenticationError, UnavailableError
from lakeport.sharing.profile import (
    Basic,
    BearerToken,
    OAuthClientCredentials,
    OAuthPrivateKeyJwt,
    Profile,
    ProfileCredentials,
)
from lakeport.testing.http import Asked, Script, Steps, reply, scripted
from tests.client.timing import pool

NOW = 1_700_000_000.0


class Clock:
    """Seconds since the epoch, moved by hand."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def profile(credentials: ProfileCredentials, endpoint: str = "http://127.0.0.1:1") -> Profile:
    return Profile(endpoint=endpoint, credentials=credentials, version=2)


def tokens(lifetime: Any = 3600, **more: Any) -> Script:
    """An endpoint that gives the tokens t0, t1 …"""
    return lambda asked: reply(
        json.dumps({"access_token": f"t{asked.number}", "expires_in": lifetime, **more}).encode()
    )


def by_secret(endpoint: str, **more: Any) -> OAuthClientCredentials:
    settings = {"client_id": "me", "client_secret": "my secret", "scope": "read all"} | more
    return OAuthClientCredentials(token_endpoint=endpoint, **settings)


def test_a_bearer_token_is_sent_as_it_is() -> None:
    with pool() as http:
        auth = authorization(profile(BearerToken(token="abc")), http)
        assert auth.header() == "Bearer abc"
        assert auth.renewed("Bearer abc") is None
        assert "abc" not in repr(auth)


def test_a_name_and_a_password_are_sent_packed() -> None:
    with pool() as http:
        auth = authorization(profile(Basic(username="me", password="pä:ss")), http)
        assert auth.header() == f"Basic {base64.b64encode('me:pä:ss'.encode()).decode()}"
        assert auth.renewed(auth.header()) is None


def test_an_expired_token_is_not_sent() -> None:
    credentials = BearerToken(token="abc", expiration_time="2023-11-14T22:13:20Z")  # NOW
    with pool() as http:
        clock = Clock()
        clock.now = NOW - 30 * 24 * 3600
        auth = authorization(profile(credentials), http, clock)
        clock.now = NOW - 0.001
        assert auth.header() == "Bearer abc"
        clock.now = NOW
        with pytest.raises(AuthenticationError, match=r"expired \(2023-11-14T22:13:20Z\).*new profile") as failed:
            auth.header()
    assert "abc" not in str(failed.value)


def test_a_token_that_expires_soon_is_warned_of() -> None:
    with pool() as http, warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for text in ("2023-11-16T22:13:20Z", "2023-12-14T22:13:20Z", "2023-11-01T00:00:00Z"):
            authorization(profile(BearerToken(token="abc", expiration_time=text)), http, Clock())
    (warned,) = found
    assert warned.category is UserWarning
    assert "expires in 2.0 days" in str(warned.message)
    assert "abc" not in str(warned.message)


def test_a_token_for_a_secret_is_asked_for_as_oauth_says() -> None:
    with scripted(tokens()) as server, pool() as http:
        assert authorization(profile(by_secret(f"{server.url}/token")), http).header() == "Bearer t0"
        asked = server.asked[0]
        assert (asked.method, asked.path) == ("POST", "/token")
        assert asked.headers["authorization"] == f"Basic {base64.b64encode(b'me:my secret').decode()}"
        assert asked.headers["content-type"] == "application/x-www-form-urlencoded"
        assert asked.headers["accept"] == "application/json"
        assert parse_qs(asked.body.decode()) == {"grant_type": ["client_credentials"], "scope": ["read all"]}


def test_no_scope_is_sent_if_there_is_none() -> None:
    with scripted(tokens()) as server, pool() as http:
        authorization(profile(by_secret(server.url, scope=None)), http).header()
        assert parse_qs(server.asked[0].body.decode()) == {"grant_type": ["client_credentials"]}


@pytest.mark.parametrize(("lifetime", "used_for"), [(3600, 3300), ("3600", 3300), (60, 30), (3600.5, 3300.5)])
def test_a_token_is_used_until_it_is_about_to_expire(lifetime: Any, used_for: float) -> None:
    clock = Clock()
    with scripted(tokens(lifetime)) as server, pool() as http:
        auth = authorization(profile(by_secret(server.url)), http, clock)
        assert auth.header() == auth.header() == "Bearer t0"
        clock.now = NOW + used_for - 1
        assert auth.header() == "Bearer t0"
        clock.now = NOW + used_for
        assert auth.header() == "Bearer t1"
        assert len(server.asked) == 2


def test_a_token_without_a_lifetime_is_used_until_it_is_refused() -> None:
    clock = Clock()
    with scripted(lambda asked: reply(b'{"access_token": "t%d"}' % asked.number)) as server, pool() as http:
        auth = authorization(profile(by_secret(server.url)), http, clock)
        assert auth.header() == "Bearer t0"
        clock.now += 1e9
        assert auth.header() == "Bearer t0"
        assert auth.renewed("Bearer t0") == "Bearer t1" == auth.header()


def test_a_token_that_another_thread_has_renewed_already_is_not_renewed_again() -> None:
    with scripted(tokens()) as server, pool() as http:
        auth = authorization(profile(by_secret(server.url)), http)
        first = auth.header()
        assert auth.renewed(first) == auth.renewed(first) == "Bearer t1"
        assert len(server.asked) == 2


def test_all_who_have_the_same_credentials_share_a_token() -> None:
    with scripted(tokens()) as server, pool() as http, pool() as other:
        credentials = by_secret(server.url)
        assert authorization(profile(credentials), http).header() == "Bearer t0"
        assert authorization(profile(replace(credentials)), other).header() == "Bearer t0"
        assert authorization(profile(replace(credentials, client_id="you")), http).header() == "Bearer t1"


def test_threads_that_begin_together_fetch_one_token() -> None:
    with scripted(tokens()) as server, pool() as http:
        auth = authorization(profile(by_secret(server.url)), http)
        found: list[str] = []
        threads = [threading.Thread(target=lambda: found.append(auth.header())) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert found == ["Bearer t0"] * 8
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (reply(b'{"error": "invalid_client", "error_description": "no such client"}', 401), "invalid_client: no such"),
        (reply(b"<html>", 403), "issued no token: status 403"),
        (reply(b'{"token_type": "bearer"}'), "without a valid access_token"),
        (reply(b'{"access_token": ""}'), "without a valid access_token"),
        (reply(b'{"access_token": "my secret\\r\\nX-More: 1"}'), "without a valid access_token"),
        (reply(b'{"access_token": "t", "expires_in": "soon"}'), "without a valid access_token"),
        (reply(b"not json"), "without a valid access_token"),
        (reply(b""), "without a valid access_token"),
        (reply(b'{"error": "slow_down"}'), "slow_down"),
    ],
)
def test_a_refused_token_is_told_without_the_secret(answer: Steps, message: str) -> None:
    with scripted(lambda asked: answer) as server, pool() as http:
        auth = authorization(profile(by_secret(server.url)), http)
        with pytest.raises(AuthenticationError, match=message) as failed:
            auth.header()
        assert len(server.asked) == 1
        assert server.url.removeprefix("http://") in str(failed.value)
        assert "my secret" not in str(failed.value)


def test_an_endpoint_that_is_busy_is_asked_again() -> None:
    def script(asked: Asked) -> Steps:
        return tokens()(asked) if asked.number == 2 else reply(b"", 503)

    with scripted(script) as server, pool() as http:
        assert authorization(profile(by_secret(server.url)), http).header() == "Bearer t2"


def test_an_endpoint_that_stays_away_is_unavailable() -> None:
    with scripted(lambda asked: reply(b"", 503)) as server, pool(retries=RetryOptions(retries=2)) as http:
        with pytest.raises(UnavailableError, match="a token"):
            authorization(profile(by_secret(server.url)), http).header()
        assert len(server.asked) == 3


# A token for a private key.

Verify = Callable[[bytes, bytes], None]


def rsa_key() -> tuple[bytes, rsa.RSAPrivateKey]:
    key = rsa.generate_private_key(65537, 2048)
    return pem_of(key), key


def pem_of(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def by_key(endpoint: str, path: Path, **more: Any) -> OAuthPrivateKeyJwt:
    settings: dict[str, Any] = {"issuer": "https://issuer", "client_id": "me", "audience": "the resource"} | more
    return OAuthPrivateKeyJwt(token_endpoint=endpoint, private_key_file=str(path), **settings)


def unpacked(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def assertion_of(asked: Asked) -> tuple[dict[str, Any], dict[str, Any], bytes, bytes]:
    form = parse_qs(asked.body.decode())
    assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    head, claims, signature = form["assertion"][0].split(".")
    return json.loads(unpacked(head)), json.loads(unpacked(claims)), f"{head}.{claims}".encode(), unpacked(signature)


@pytest.mark.parametrize("algorithm", [None, "RS256", "RS512", "PS384"])
def test_a_token_for_a_key_is_asked_for_with_a_signature(tmp_path: Path, algorithm: str | None) -> None:
    pem, key = rsa_key()
    (tmp_path / "key.pem").write_bytes(pem)
    with scripted(tokens()) as server, pool() as http:
        credentials = by_key(server.url, tmp_path / "key.pem", algorithm=algorithm, key_id="k1", scope="read")
        assert authorization(profile(credentials), http, Clock()).header() == "Bearer t0"
        head, claims, signed, signature = assertion_of(server.asked[0])
    assert head == {"alg": algorithm or "RS256", "typ": "JWT", "kid": "k1"}
    assert len(claims.pop("jti")) >= 16
    assert claims == {
        "aud": "https://issuer",
        "iss": "me",
        "iat": int(NOW),
        "exp": int(NOW) + 120,
        "resource": "the resource",
        "scope": "read",
    }
    digest = {"2": hashes.SHA256(), "3": hashes.SHA384(), "5": hashes.SHA512()}[(algorithm or "RS256")[2]]
    scheme: Any = padding.PKCS1v15()
    if algorithm == "PS384":
        scheme = padding.PSS(padding.MGF1(hashes.SHA384()), hashes.SHA384.digest_size)
    key.public_key().verify(signature, signed, scheme, digest)


@pytest.mark.parametrize(
    ("algorithm", "curve", "digest"),
    [("ES256", ec.SECP256R1(), hashes.SHA256()), ("ES512", ec.SECP521R1(), hashes.SHA512())],
)
def test_a_key_of_an_elliptic_curve_signs_too(
    tmp_path: Path, algorithm: str, curve: ec.EllipticCurve, digest: hashes.HashAlgorithm
) -> None:
    key = ec.generate_private_key(curve)
    (tmp_path / "key.pem").write_bytes(pem_of(key))
    with scripted(tokens()) as server, pool() as http:
        authorization(profile(by_key(server.url, tmp_path / "key.pem", algorithm=algorithm)), http).header()
        head, _, signed, signature = assertion_of(server.asked[0])
    assert head == {"alg": algorithm, "typ": "JWT"}
    half = len(signature) // 2
    numbers = (int.from_bytes(signature[:half], "big"), int.from_bytes(signature[half:], "big"))
    key.public_key().verify(encode_dss_signature(*numbers), signed, ec.ECDSA(digest))


@pytest.mark.parametrize(
    ("content", "algorithm", "message"),
    [
        (None, None, "cannot be read"),
        (b"-----BEGIN NOTHING-----", None, "must be PEM without a password, and fit the algorithm RS256"),
        ("rsa", "ES256", "and fit the algorithm ES256"),
        ("secp384r1", "ES256", "and fit the algorithm ES256"),
        ("rsa", "HS256", "use one of RS256, RS384, RS512"),
        ("rsa", "none", "use one of RS256, RS384, RS512"),
    ],
)
def test_a_key_that_cannot_be_used_is_told(
    tmp_path: Path, content: bytes | str | None, algorithm: str | None, message: str
) -> None:
    path = tmp_path / "key.pem"
    if content is not None:
        made = {"rsa": rsa_key()[0], "secp384r1": pem_of(ec.generate_private_key(ec.SECP384R1()))}
        path.write_bytes(made[content] if isinstance(content, str) else content)
    with scripted(tokens()) as server, pool() as http:
        auth = authorization(profile(by_key(server.url, path, algorithm=algorithm)), http)
        with pytest.raises(AuthenticationError, match=message):
            auth.header()
        assert server.asked == []


# Requests.


def test_a_token_that_the_server_refuses_is_renewed_once() -> None:
    def api(asked: Asked) -> Steps:
        if asked.headers["authorization"] == "Bearer t0":
            return reply(b'{"errorCode": "UNAUTHENTICATED", "message": "expired"}', 401)
        return reply(b'{"items": [{"name": "s"}]}')

    with scripted(tokens()) as endpoint, scripted(api) as server, pool() as http:
        client = SharingServer(profile(by_secret(endpoint.url), server.url), http)
        assert [share.name for share in client.shares()] == ["s"]
        assert [share.name for share in client.shares()] == ["s"]
        sent = [asked.headers["authorization"] for asked in server.asked]
        assert sent == ["Bearer t0", "Bearer t1", "Bearer t1"]


def test_a_server_that_refuses_the_new_token_too_is_not_asked_for_ever() -> None:
    with scripted(tokens()) as endpoint, scripted(lambda asked: reply(b"", 401)) as server, pool() as http:
        client = SharingServer(profile(by_secret(endpoint.url), server.url), http)
        with pytest.raises(AuthenticationError, match="ask the provider for a new profile"):
            client.shares()
        assert (len(server.asked), len(endpoint.asked)) == (2, 2)


def test_a_fixed_token_that_is_refused_is_not_sent_again() -> None:
    secret = "abcdefghijklmnopqrstuvwxyz"
    answer = json.dumps({"errorCode": "UNAUTHENTICATED", "message": f"bad token: Bearer {secret}"}).encode()
    with scripted(lambda asked: reply(answer, 401)) as server, pool() as http:
        client = SharingServer(profile(BearerToken(token=secret), server.url), http)
        with pytest.raises(AuthenticationError, match="UNAUTHENTICATED") as failed:
            client.shares()
        assert len(server.asked) == 1
        assert secret not in str(failed.value)


@pytest.mark.parametrize("endpoint", ["http://sharing.example/x", "http://10.0.0.1:8080/", "HTTP://[2001:db8::1]/"])
def test_credentials_that_are_sent_unencrypted_to_another_machine_are_warned_of(endpoint: str) -> None:
    with pytest.warns(UserWarning, match="are sent unencrypted"):
        authorization(profile(BearerToken(token="t"), endpoint), pool())
    with pytest.warns(UserWarning, match="are sent unencrypted"):
        authorization(profile(by_secret(endpoint)), pool())


@pytest.mark.parametrize(
    "endpoint", ["https://sharing.example/x", "http://127.0.0.1:8080/", "http://localhost/", "http://[::1]/"]
)
def test_encrypted_and_own_endpoints_are_not_warned_of(endpoint: str) -> None:
    authorization(profile(BearerToken(token="t"), endpoint), pool())
