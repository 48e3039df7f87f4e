"""URLs that expire: asked for again in time, once for all threads, and never for other files."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping

import pyarrow as pa
import pytest

from lakeport.client.tables.urls import FreshUrls
from lakeport.engine.storage.signing import SignedUrl
from lakeport.errors import SharingError
from tests.client.provider import DataFile, Shared, providing, schema


class Server:
    """Gives URLs that live for some seconds of a clock that the test sets."""

    def __init__(self, seconds: float | None = 100.0) -> None:
        self.now, self.asked, self._seconds = 1_000.0, 0, seconds

    def urls(self, *paths: str) -> Mapping[str, SignedUrl]:
        expires = None if self._seconds is None else int((self.now + self._seconds) * 1000)
        return {path: SignedUrl(f"{path}?{self.asked}", expires) for path in paths}

    def fresh(self, fetch: Callable[[], Mapping[str, SignedUrl]] | None = None) -> FreshUrls:
        def renew() -> Mapping[str, SignedUrl]:
            self.asked += 1
            return self.urls("a", "b")

        return FreshUrls(self.urls("a", "b"), fetch or renew, lambda: self.now)


def test_a_url_is_renewed_before_it_expires() -> None:
    server = Server()
    urls = server.fresh()
    server.now += 79
    assert urls.signed("a").url == "a?0"
    server.now += 2
    assert (urls.signed("a").url, urls.signed("b").url) == ("a?1", "b?1")
    server.now += 79
    assert urls.signed("b").url == "b?1"
    assert server.asked == 1


def test_a_long_life_is_renewed_five_minutes_before_its_end() -> None:
    server = Server(36_000)
    urls = server.fresh()
    server.now += 36_000 - 301
    assert urls.signed("a").url == "a?0"
    server.now += 2
    assert urls.signed("a").url == "a?1"


def test_a_url_whose_life_is_not_told_is_good_until_it_is_refused() -> None:
    server = Server(None)
    urls = server.fresh()
    server.now += 10**9
    assert urls.signed("a").url == "a?0"
    assert urls.signed("a", "a?0").url == "a?1"
    assert urls.signed("b").url == "b?1"


def test_a_url_that_another_thread_has_renewed_is_not_renewed_again() -> None:
    server = Server()
    urls = server.fresh()
    assert urls.signed("a", "a?0").url == "a?1"
    assert urls.signed("b", "b?0").url == "b?1"
    assert server.asked == 1


def test_many_threads_ask_once() -> None:
    server = Server()
    urls = server.fresh()
    server.now += 90
    barrier, found = threading.Barrier(16), []

    def read() -> None:
        barrier.wait()
        found.append(urls.signed("a").url)

    threads = [threading.Thread(target=read) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["a?1"] * 16
    assert server.asked == 1


def test_an_answer_without_one_of_the_files_is_an_error() -> None:
    server = Server()
    urls = server.fresh(lambda: server.urls("a"))
    with pytest.raises(SharingError, match="did not renew the URLs of 1 of 2 files; read the table again") as failed:
        urls.signed("b", "b?0")
    assert failed.value.code == "URLS_NOT_RENEWED"


def test_each_renewal_has_the_token_of_the_answer_before() -> None:
    tokens = ["first", "second", "third", "fourth"]
    shared = Shared(schema(a="long"), [DataFile("1", pa.table({"a": [1]}))], refresh_tokens=tokens.copy())
    with providing(shared) as provider:
        (file,) = provider.frame().plan().files()
        storage = provider.frame().engine.storage
        for _ in range(3):
            storage.signed(file.path, storage.signed(file.path).url)
        queries = [json.loads(asked.body) for asked in provider.asked if asked.path.endswith("/query")]
    assert [query.get("refreshToken") for query in queries] == [None, *tokens[:3]]


@pytest.mark.parametrize("seconds", [-5, -1000, -(10**12)])
def test_urls_that_have_expired_when_they_come_are_good_until_they_are_refused(seconds: float) -> None:
    server = Server(seconds)  # the clocks differ
    urls = server.fresh()
    assert (urls.signed("a").url, urls.signed("b").url) == ("a?0", "b?0")
    assert urls.signed("a", "a?0").url == "a?1"
    server.now += 100
    assert urls.signed("b").url == "b?1"


def test_a_url_is_not_in_the_repr() -> None:
    assert "secret" not in repr(SignedUrl("https://storage/?secret", 5))
