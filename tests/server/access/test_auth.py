"""Who is let in: tokens, addresses, proxies, and servers that ask for no token."""

import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lakeport.server.access.recipients import Proxies, is_within
from lakeport.server.catalog.index import token_digest
from lakeport.server.catalog.model import BearerToken, Recipient
from tests.server.running import TOKEN, Running, recipient, running, sharing


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    expired = Recipient(
        id="old",
        name="old",
        tokens=(BearerToken(digest=token_digest("old token"), expires=int(time.time() * 1000) - 1),),
        grants=("*",),
    )
    people = [
        recipient("ann", TOKEN),
        recipient("near", "near", ip_allow_list=("10.0.0.0/8", "127.0.0.1")),
        recipient("far", "far", ip_allow_list=("10.0.0.0/8", "192.0.2.7", "2001:db8::/32")),
        expired,
    ]
    with running(sharing({"a.b.c": "/nowhere"}, *people), trusted_proxies=("127.0.0.0/8", "10.1.1.1")) as started:
        yield started


def test_an_expired_token_gets_the_same_answer_as_a_wrong_one_and_the_log_tells(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "lakeport"):
        expired, wrong = (server.get("shares", token=token) for token in ("old token", "wrong"))
    assert (expired.status_code, expired.json()) == (wrong.status_code, wrong.json())
    assert (expired.status_code, expired.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert "rejected an expired token of old" in caplog.messages
    assert "rejected an unknown token" in caplog.messages


def test_an_address_outside_of_the_allow_list_is_refused(server: Running) -> None:
    assert server.get("shares", token="near").status_code == 200
    answer = server.get("shares", token="far")
    assert (answer.status_code, answer.json()["errorCode"]) == (403, "PERMISSION_DENIED")
    assert "127.0.0.1" in answer.json()["message"]


@pytest.mark.parametrize(
    ("forwarded", "status"),
    [
        ("10.5.5.5", 200),
        ("192.0.2.7", 200),
        ("2001:db8::1", 200),
        ("192.0.2.8", 403),
        ("192.0.2.7, 192.0.2.8", 403),  # what the client says of itself comes first
        ("192.0.2.8, 192.0.2.7", 200),
        ("192.0.2.7, 10.1.1.1", 200),  # through two proxies
        ("192.0.2.7:50123", 200),
        ("[2001:db8::1]:50123", 200),
        ("[2001:db8::1]", 200),
        ("192.0.2.7:1, 192.0.2.8:2", 403),
        ("192.0.2.7:1, 10.1.1.1:2", 200),
        ("nonsense", 403),
        ("[]:1", 403),
    ],
)
def test_a_trusted_proxy_tells_the_address(server: Running, forwarded: str, status: int) -> None:
    assert server.get("shares", token="far", headers={"X-Forwarded-For": forwarded}).status_code == status


def test_what_a_proxy_tells_counts_and_not_what_its_client_has_told_before() -> None:
    headers = [(b"x-forwarded-for", b"10.0.0.1"), (b"host", b"x"), (b"x-forwarded-for", b"192.0.2.8")]
    scope = {"client": ("127.0.0.1", 1), "headers": headers}
    assert Proxies(["127.0.0.1"]).client_address(scope) == "192.0.2.8"
    assert Proxies(["127.0.0.1", "192.0.2.8"]).client_address(scope) == "10.0.0.1"
    assert Proxies(["127.0.0.1"]).client_address(scope | {"headers": [(b"x-forwarded-for", b"")]}) == "127.0.0.1"


def test_anyone_else_cannot_tell_an_address() -> None:
    far = recipient("far", "far", ip_allow_list=("10.0.0.0/8",))
    with running(sharing({"a.b.c": "/nowhere"}, far)) as server:
        assert server.get("shares", token="far", headers={"X-Forwarded-For": "10.0.0.1"}).status_code == 403


def test_a_catalog_that_asks_for_no_token_answers_everyone() -> None:
    content = replace(sharing({"a.b.c": "/nowhere"}), recipients=(), anonymous=True)
    with running(content) as server:
        assert server.get("shares", token=None).status_code == 200
        assert server.get("shares", token="any").status_code == 200


def test_urls_of_files_name_what_the_client_reached(tmp_path: Path) -> None:
    scope = {"client": ("10.0.0.1", 1), "scheme": "http", "server": ("0.0.0.0", 80)}
    headers = [(b"host", b"inside:80"), (b"x-forwarded-proto", b"https"), (b"x-forwarded-host", b"share.example.org")]
    assert Proxies(()).url({**scope, "headers": headers}) == "http://inside:80"
    assert Proxies(["10.0.0.0/8"]).url({**scope, "headers": headers}) == "https://share.example.org"
    assert Proxies(()).url({**scope, "headers": []}) == "http://0.0.0.0:80"
    several = [(b"x-forwarded-proto", b"https, http"), (b"x-forwarded-host", b"share.example.org,inside")]
    assert Proxies(["10.0.0.0/8"]).url({**scope, "headers": several}) == "https://share.example.org"


@pytest.mark.parametrize(
    ("address", "networks", "expected"),
    [
        ("192.0.2.1", ("192.0.2.0/24",), True),
        ("192.0.3.1", ("192.0.2.0/24",), False),
        ("::ffff:192.0.2.1", ("192.0.2.0/24",), True),
        ("2001:db8::1%eth0", ("2001:db8::/32",), True),
        ("192.0.2.1", ("2001:db8::/32",), False),
        ("", ("0.0.0.0/0",), False),
    ],
)
def test_addresses_are_compared_as_numbers(address: str, networks: tuple[str, ...], expected: bool) -> None:
    assert is_within(address, networks) is expected
