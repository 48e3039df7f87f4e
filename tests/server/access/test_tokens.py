"""Tokens that cannot be forged, changed, exchanged or kept for ever."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec
import pytest

from lakeport.errors import SharingError
from lakeport.server.access.tokens import TokenSigner
from tests.server.asking import Clock


class Content(msgspec.Struct, frozen=True, array_like=True):
    table: str
    version: int


class Other(msgspec.Struct, frozen=True, array_like=True):
    path: str
    rows: str


CONTENT = Content("täble", 2**40)


def refused(signer: TokenSigner, kind: str, token: str, content: type[msgspec.Struct] = Content) -> str:
    with pytest.raises(SharingError) as caught:
        signer.read(kind, token, content)
    assert (caught.value.status, caught.value.code) == (400, "INVALID_PARAMETER_VALUE")
    return str(caught.value)


def test_what_was_signed_is_read() -> None:
    signer = TokenSigner(b"key")
    token = signer.sign("page", CONTENT, 60)
    assert signer.read("page", token, Content) == CONTENT
    assert TokenSigner(b"key").read("page", token, Content) == CONTENT


def test_a_token_can_be_put_into_a_url() -> None:
    for number in range(50):
        token = TokenSigner(b"key").sign("page", Content("x" * number, number), 60)
        assert re.fullmatch(r"[A-Za-z0-9_-]+", token)


def test_a_token_expires() -> None:
    clock = Clock()
    signer = TokenSigner(b"key", clock)
    token = signer.sign("page", CONTENT, 60)
    clock.now += 59
    assert signer.read("page", token, Content) == CONTENT
    clock.now += 2
    assert "expired" in refused(signer, "page", token)


def test_a_token_of_another_key_or_another_kind_is_refused() -> None:
    token = TokenSigner(b"key").sign("page", CONTENT, 60)
    refused(TokenSigner(b"kez"), "page", token)
    refused(TokenSigner(b"key"), "refresh", token)
    refused(TokenSigner(b"key"), "pag", token)


def test_a_token_in_which_one_bit_was_changed_is_refused() -> None:
    signer = TokenSigner(b"key")
    token = signer.sign("page", CONTENT, 60)
    data = urlsafe_b64decode(token + "=" * (-len(token) % 4))
    for position in range(len(data) * 8):
        changed = bytearray(data)
        changed[position // 8] ^= 1 << position % 8
        refused(signer, "page", urlsafe_b64encode(changed).decode().rstrip("="))


@pytest.mark.parametrize(
    "token", ["", "A", "AAAA", "A" * 21, "A" * 22, "A" * 100_000, "ü", "not base64!", "====", "\0"]
)
def test_what_is_no_token_is_refused(token: str) -> None:
    refused(TokenSigner(b"key"), "page", token)


def test_a_token_that_was_cut_is_refused() -> None:
    signer = TokenSigner(b"key")
    token = signer.sign("page", CONTENT, 60)
    for length in range(len(token)):
        refused(signer, "page", token[:length])


def test_a_token_with_another_content_is_refused() -> None:
    signer = TokenSigner(b"key")
    assert "not valid" in refused(signer, "page", signer.sign("page", CONTENT, 60), Other)
