"""Requests over HTTP: what may pass is tried again, what is permanent is not, and no body is shorter than it was."""

import gzip
import random
import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from lakeport.client.http.pool import DataUrlRefused, HttpPool
from lakeport.client.http.retrying import RetryOptions, Timing, parse_retry_after
from lakeport.errors import SharingError, StorageError, UnavailableError
from lakeport.testing.http import (
    Asked,
    Close,
    Reset,
    Script,
    Stall,
    Steps,
    chunked,
    head,
    reply,
    scripted,
)
from lakeport.version import __version__
from tests.client.timing import Sleeps, pool

FILE = bytes(range(256)) * 4096  # 1 MiB


def in_turn(*answers: Steps) -> Script:
    """One answer after the other; the last one for ever."""
    return lambda asked: answers[min(asked.number, len(answers) - 1)]


def body_of(http: HttpPool, url: str, method: str = "GET", **options: object) -> bytes:
    return http.receive(method, url, lambda answer: answer.read(), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "failure",
    [
        reply(b"busy", 429),
        reply(b"", 500),
        reply(b"", 502),
        reply(b"", 503),
        reply(b"", 408),
        [Close()],
        [Reset()],
        [b"HTTP/1.1 200 OK\r\nconte", Close()],
        [b"HTTP/1.1 200 OK\r\ncontent-length: 1", Close()],
        [b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n", Close()],
        [b"this is not HTTP\r\n\r\n", Close()],
        [*reply(b"some of the bo", length=20), Close()],
        [*reply(b"some of the bo", length=20), Reset()],
        [*chunked(b"some of", b" the bo", whole=False), Close()],
        [*chunked(b"some of", whole=False), b"1000\r\nmuch is missing", Close()],
        [*chunked(b"some of", whole=False), b"no number\r\n", Close()],
        [Stall()],
        [*reply(b"some of the bo", length=20), Stall()],
        [*reply(gzip.compress(b"some of the body")[:-9], headers={"content-encoding": "gzip"})],
        [*reply(b"this is not packed", headers={"content-encoding": "gzip"})],
    ],
    ids=lambda steps: str(steps)[:60],
)
def test_what_may_pass_is_tried_again(failure: Steps) -> None:
    sleeps = Sleeps()
    patience = 0.5 if any(isinstance(step, Stall) for step in failure) else 20
    answers = in_turn(failure, failure, reply(b"the whole body"))
    with scripted(answers) as server, pool(sleeps, read_seconds=patience) as http:
        assert body_of(http, server.url) == b"the whole body"
        assert [asked.method for asked in server.asked] == ["GET"] * 3
        assert sleeps.seconds == [0.2, 0.4]


@pytest.mark.parametrize("status", [200, 204, 304, 400, 401, 403, 404, 405, 409, 410, 422, 501, 505])
def test_what_is_permanent_is_asked_for_once(status: int) -> None:
    with scripted(lambda asked: reply(b"", status)) as server, pool() as http:
        with http.request("GET", server.url) as answer:
            assert answer.status == status
        assert len(server.asked) == 1


def test_the_waits_double_up_to_the_longest_and_then_it_is_given_up() -> None:
    sleeps = Sleeps()
    retries = RetryOptions(retries=6, first_wait_seconds=1, longest_wait_seconds=10, total_seconds=1000)
    with scripted(lambda asked: reply(b"", 503)) as server, pool(sleeps, retries=retries) as http:
        with pytest.raises(UnavailableError, match=r"127\.0\.0\.1.*503.*7 attempts in 35\.0 s") as failed:
            http.request("GET", server.url)
        assert sleeps.seconds == [1, 2, 4, 8, 10, 10]
        assert len(server.asked) == 7
    assert failed.value.status == 503


def test_waits_are_cut_by_chance() -> None:
    chances = iter([0.5, 0.0, 0.25])
    slept: list[float] = []
    timing = Timing(clock=lambda: 0.0, sleep=slept.append, chance=lambda: next(chances))
    with scripted(in_turn(*[reply(b"", 500)] * 3, reply(b"ok"))) as server, HttpPool(timing=timing) as http:
        assert body_of(http, server.url) == b"ok"
    assert slept == [0.1, 0.0, 0.2]


def test_it_waits_for_as_long_as_the_server_asks() -> None:
    sleeps = Sleeps()
    with scripted(in_turn(reply(b"", 429, {"retry-after": "7"}), reply(b"ok"))) as server, pool(sleeps) as http:
        assert body_of(http, server.url) == b"ok"
    assert sleeps.seconds == [7]


def test_it_does_not_wait_for_longer_than_its_limit() -> None:
    sleeps = Sleeps()
    with scripted(lambda asked: reply(b"", 503, {"retry-after": "3600"})) as server, pool(sleeps) as http:
        with pytest.raises(UnavailableError, match="asks to wait 3600 s") as failed:
            http.request("GET", server.url)
        assert (len(server.asked), sleeps.seconds) == (1, [])
    assert failed.value.wait_seconds == 3600


def test_retry_after_is_seconds_or_a_moment() -> None:
    assert parse_retry_after(None) == 0
    assert parse_retry_after(" 12 ") == 12
    assert parse_retry_after("soon") == parse_retry_after("-1") == parse_retry_after("") == 0
    later = datetime.now(UTC) + timedelta(seconds=100)
    assert 95 < parse_retry_after(format_datetime(later, usegmt=True)) <= 100
    assert parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0


def test_a_server_that_is_not_there_is_named_at_once() -> None:
    with scripted(lambda asked: []) as gone:
        pass
    sleeps = Sleeps()
    address = gone.url.removeprefix("http://")
    with pool(sleeps) as http, pytest.raises(UnavailableError, match=f"connection refused.* at {address}") as failed:
        http.request("GET", f"{gone.url}/path?signature=secret")
    assert "secret" not in str(failed.value)
    assert failed.value.status == 0
    assert sleeps.seconds == []
    with pool(sleeps) as http, pytest.raises(StorageError, match="connection refused"):
        http.get_range(f"{gone.url}/path", 0, 1)
    with (
        pool(sleeps, proxy=gone.url) as http,
        pytest.raises(UnavailableError, match=r"refused.* the proxy for x"),
    ):
        http.request("GET", "http://x.example/")
    assert sleeps.seconds == []


def test_a_name_that_does_not_exist_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    sleeps = Sleeps()
    with pool(sleeps) as http, pytest.raises(UnavailableError, match=r"name of nowhere\.example does not exist"):
        http.request("GET", "http://nowhere.example/")
    assert sleeps.seconds == []


def test_a_server_that_answered_before_may_come_back() -> None:
    sleeps = Sleeps()
    with pool(sleeps) as http:
        with scripted(lambda asked: [*reply(b"here"), Close()]) as restarting:
            http.request("GET", restarting.url).close()
        with pytest.raises(UnavailableError, match=r"connection refused.*gave up after 9 attempts"):
            http.request("GET", restarting.url)
    assert len(sleeps.seconds) == 8


@pytest.mark.parametrize(
    "url", ["s3://bucket/secret", "http://", "http://host:port/secret", "nothing", "//host/secret"]
)
def test_what_is_no_url_is_refused_without_being_told(url: str) -> None:
    with pool() as http:
        with pytest.raises(SharingError, match="not an http or https URL") as failed:
            http.request("GET", url)
        assert "secret" not in str(failed.value)
        with pytest.raises(StorageError, match="not an http or https URL"):
            http.get_range(url, 0, 1)


def test_a_body_that_is_read_later_is_not_read_short() -> None:
    with scripted(lambda asked: [*reply(b"some", length=20), Close()]) as server, pool() as http:
        answer = http.request("GET", server.url)
        with answer, pytest.raises(UnavailableError, match="lost"):
            answer.read()


def test_connections_are_kept_and_given_back() -> None:
    with scripted(lambda asked: reply(b"x" * 1000, 404 if asked.number % 2 else 200)) as server, pool() as http:
        for _ in range(20):
            with http.request("GET", server.url) as answer:
                answer.read()
        assert server.connections == 1


def test_an_answer_that_is_not_read_gives_its_place_back() -> None:
    with scripted(lambda asked: reply(b"x" * 100_000)) as server, pool(connections_per_host=1) as http:
        for _ in range(3):
            with http.request("GET", server.url) as answer:
                assert answer.status == 200
        assert len(server.asked) == 3


def test_a_connection_that_the_server_has_closed_meanwhile_is_no_failure() -> None:
    with scripted(lambda asked: [*reply(b"ok"), Close()]) as server, pool() as http:
        assert [body_of(http, server.url) for _ in range(5)] == [b"ok"] * 5


def test_many_threads_share_the_connections() -> None:
    with scripted(lambda asked: reply(b"x" * 50_000)) as server, pool(connections_per_host=4) as http:
        found: list[bytes] = []
        threads = [threading.Thread(target=lambda: found.append(body_of(http, server.url))) for _ in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert found == [b"x" * 50_000] * 40
        assert server.connections <= 4


def test_it_says_who_it_is_and_unpacks_what_is_packed() -> None:
    packed = gzip.compress(b"one ") + gzip.compress(b"two")
    with scripted(lambda asked: reply(packed, headers={"Content-Encoding": "gzip"})) as server, HttpPool() as http:
        assert body_of(http, server.url) == b"one two"
        assert server.asked[0].headers["user-agent"].startswith(f"Lakeport/{__version__} ")
        assert server.asked[0].headers["accept-encoding"] == "gzip"


def test_an_encoding_that_was_not_asked_for_is_refused() -> None:
    with scripted(lambda asked: reply(b"?", headers={"content-encoding": "br"})) as server, pool() as http:
        with pytest.raises(SharingError, match="'br'"):
            body_of(http, server.url)
        assert len(server.asked) == 1


# Redirects.


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_within_a_server_is_followed_with_the_token(status: int) -> None:
    def script(asked: Asked) -> Steps:
        return reply(b"here") if asked.path == "/new" else reply(b"", status, {"location": "/new?a=b"})

    with scripted(script) as server, pool() as http:
        assert body_of(http, f"{server.url}/old", headers={"Authorization": "Bearer t"}) == b"here"
        assert server.asked[1].target == "/new?a=b"
        assert server.asked[1].headers["authorization"] == "Bearer t"


def test_a_redirect_to_another_server_is_followed_without_the_token() -> None:
    with (
        scripted(lambda asked: reply(b"here")) as other,
        scripted(lambda asked: reply(b"", 302, {"location": f"{other.url}/file"})) as server,
        pool() as http,
    ):
        assert body_of(http, server.url, headers={"Authorization": "Bearer t", "x": "y"}) == b"here"
        assert "authorization" not in other.asked[0].headers
        assert other.asked[0].headers["x"] == "y"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_what_is_posted_goes_to_no_other_server(status: int) -> None:
    with (
        scripted(lambda asked: reply(b"here")) as other,
        scripted(lambda asked: reply(b"", status, {"location": f"{other.url}/file?secret"})) as server,
        pool() as http,
    ):
        with pytest.raises(SharingError, match="redirects a POST") as failed:
            http.request("POST", server.url, body=b"secret")
        assert "secret" not in str(failed.value)
        assert (len(server.asked), other.asked) == (1, [])


def test_what_is_posted_goes_to_another_place_of_the_same_server() -> None:
    def script(asked: Asked) -> Steps:
        return reply(asked.body) if asked.path == "/new" else reply(b"", 307, {"location": "/new"})

    with scripted(script) as server, pool() as http:
        assert body_of(http, server.url, "POST", body=b"what") == b"what"


def test_redirects_in_a_circle_end() -> None:
    with scripted(lambda asked: reply(b"", 302, {"location": "/again"})) as server, pool() as http:
        with pytest.raises(SharingError, match="more than 5 times"):
            http.request("GET", server.url)
        assert len(server.asked) == 6


def test_a_redirect_to_what_is_no_url_of_http_is_not_followed() -> None:
    script = in_turn(reply(b"", 302, {"location": "file:///etc/passwd"}))
    with scripted(script) as server, pool() as http, pytest.raises(SharingError, match="not an http or https URL"):
        http.request("GET", server.url)


def test_a_redirect_whose_host_can_be_read_in_two_ways_is_not_followed() -> None:
    """urllib3 ends the host at a backslash, `urllib.parse` begins it after the @."""

    def script(asked: Asked) -> Steps:
        return reply(b"", 302, {"location": f"{other.url}\\@{asked.headers['host']}/"})

    with scripted(lambda asked: reply(b"here")) as other, scripted(script) as server, pool() as http:
        with pytest.raises(SharingError, match="not an http or https URL"):
            http.request("GET", server.url, headers={"Authorization": "Bearer t"})
        assert other.asked == []


# Proxies.


def test_requests_go_through_the_proxy_of_the_options() -> None:
    with scripted(lambda asked: reply(b"by proxy")) as proxy:
        url = proxy.url.replace("http://", "http://me:pass@")
        with pool(proxy=url) as http:
            assert body_of(http, "http://example.invalid/path") == b"by proxy"
        assert proxy.asked[0].target == "http://example.invalid/path"
        assert proxy.asked[0].headers["proxy-authorization"] == "Basic bWU6cGFzcw=="


def test_requests_go_through_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(lambda asked: reply(b"by proxy")) as proxy, scripted(lambda asked: reply(b"direct")) as server:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
        with pool() as http:
            assert body_of(http, "http://example.invalid/path") == b"by proxy"
            assert body_of(http, server.url) == b"direct"


def test_a_proxy_of_another_kind_is_refused() -> None:
    with pool(proxy="socks5://127.0.0.1:1") as http, pytest.raises(ValueError, match="proxy"):
        http.request("GET", "http://example.invalid/")


# Ranges of data files.


def serve_file(asked: Asked) -> Steps:
    """What storages do: a range gives a part of the file, or 416."""
    first, last = map(int, asked.headers["range"].removeprefix("bytes=").split("-"))
    if first >= len(FILE):
        return reply(b"", 416, {"content-range": f"bytes */{len(FILE)}"})
    body = FILE[first : last + 1]
    return reply(body, 206, {"content-range": f"bytes {first}-{first + len(body) - 1}/{len(FILE)}"})


@pytest.mark.parametrize(("start", "length"), [(0, 1), (0, len(FILE)), (5, 100), (len(FILE) - 1, 1), (1000, 700_000)])
def test_a_range_is_exactly_the_bytes_asked_for(start: int, length: int) -> None:
    with scripted(serve_file) as server, pool() as http:
        assert http.get_range(server.url, start, length) == FILE[start : start + length]
        assert server.asked[0].headers["range"] == f"bytes={start}-{start + length - 1}"
        assert server.asked[0].headers["accept-encoding"] == "identity"
        assert "authorization" not in server.asked[0].headers


def test_no_bytes_are_not_asked_for() -> None:
    with scripted(serve_file) as server, pool() as http:
        assert http.get_range(server.url, 5, 0) == b""
        assert server.asked == []


def test_a_range_that_makes_no_sense_is_refused() -> None:
    with pool() as http, pytest.raises(ValueError, match="invalid range"):
        http.get_range("http://example.invalid", -1, 5)


@pytest.mark.parametrize("end", [Close(), Stall()])
def test_a_range_that_is_broken_off_is_gone_on_with_where_it_stopped(end: Close | Stall) -> None:
    def script(asked: Asked) -> Steps:
        first, body = serve_file(asked)
        assert isinstance(body, bytes)
        return [first, body] if len(body) < 300_000 else [first, body[:300_000], end]

    with scripted(script) as server, pool(retries=RetryOptions(retries=1), read_seconds=1) as http:
        assert http.get_range(server.url, 10, 1_000_000) == FILE[10:1_000_010]
        starts = [int(asked.headers["range"][6:].split("-")[0]) for asked in server.asked]
        assert starts == sorted(set(starts))
        assert starts[0] == 10


def test_a_range_that_never_comes_further_is_given_up() -> None:
    def script(asked: Asked) -> Steps:
        first, body = serve_file(asked)
        assert isinstance(body, bytes)
        return [first, Close()]

    with scripted(script) as server, pool(retries=RetryOptions(retries=3)) as http:
        with pytest.raises(StorageError, match="4 attempts"):
            http.get_range(f"{server.url}/file?signature=secret", 0, 1000)
        assert len(server.asked) == 4


def test_a_range_survives_storage_that_fails_at_random() -> None:
    chances = random.Random(1)

    def script(asked: Asked) -> Steps:
        steps = serve_file(asked)
        match chances.randrange(5):
            case 0:
                return reply(b"", 500)
            case 1:
                return [Reset()]
            case 2:
                assert isinstance(steps[1], bytes)
                return [steps[0], steps[1][: chances.randrange(len(steps[1]))], Reset()]
        return steps

    # A reset may take what is on its way with it: there is not always progress.
    retries = RetryOptions(retries=100, longest_wait_seconds=1)
    with scripted(script) as server, pool(retries=retries) as http:
        for start in range(0, 500_000, 25_000):
            assert http.get_range(server.url, start, 500_000) == FILE[start : start + 500_000]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_a_url_that_is_no_longer_good_is_told_apart(status: int) -> None:
    with scripted(lambda asked: reply(b"<Error/>", status)) as server, pool() as http:
        with pytest.raises(DataUrlRefused) as refused:
            http.get_range(f"{server.url}/secret", 0, 10)
        assert (refused.value.status, len(server.asked)) == (status, 1)
        assert "secret" not in str(refused.value)


def test_a_url_that_expires_in_the_middle_of_a_range_is_told() -> None:
    def script(asked: Asked) -> Steps:
        first, body = serve_file(asked)
        assert isinstance(body, bytes)
        return reply(b"", 403) if asked.number else [first, body[:300_000], Reset()]

    with scripted(script) as server, pool() as http, pytest.raises(DataUrlRefused):
        http.get_range(server.url, 0, len(FILE))


def test_storage_that_does_not_know_ranges_sends_the_whole_file() -> None:
    with scripted(lambda asked: reply(FILE)) as server, pool() as http:
        assert http.get_range(server.url, 400_000, 500_000) == FILE[400_000:900_000]


def test_storage_that_sends_less_at_a_time_is_asked_again() -> None:
    def script(asked: Asked) -> Steps:
        first, last = map(int, asked.headers["range"].removeprefix("bytes=").split("-"))
        last = min(last, first + 99_999)
        return reply(FILE[first : last + 1], 206, {"content-range": f"bytes {first}-{last}/*"})

    with scripted(script) as server, pool() as http:
        assert http.get_range(server.url, 0, 350_000) == FILE[:350_000]
        assert len(server.asked) == 4


@pytest.mark.parametrize(
    "answer",
    [
        reply(FILE[:100], 206),
        reply(FILE[:100], 206, {"content-range": "bytes 1-100/2000"}),
        reply(FILE[:100], 206, {"content-range": "bytes 5-4/2000"}),
        reply(FILE[:50], 206, {"content-range": "bytes 0-49/50"}),
        reply(FILE[:100], 206, {"content-range": "rows 0-99/2000"}),
        reply(FILE[:100], 206, {"content-range": "bytes 0-99/2000", "content-encoding": "gzip"}),
        reply(FILE[:99]),
        reply(b"", 204),
        reply(b"", 304),
        reply(b"", 416, {"content-range": "bytes */50"}),
    ],
    ids=lambda steps: str(steps)[:60],
)
def test_other_bytes_than_those_asked_for_are_never_returned(answer: Steps) -> None:
    with scripted(lambda asked: answer) as server, pool() as http:
        with pytest.raises(StorageError) as failed:
            http.get_range(f"{server.url}/secret?secret", 0, 100)
        assert "secret" not in str(failed.value)
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [
        [head(206, {"content-range": "bytes 0-99/2000"}), FILE[:60], Close()],
        [head(200, {}), FILE[:60], Close()],
        reply(FILE[:60], 206, {"content-range": "bytes 0-99/2000"}),
        chunked(FILE[:60]),
    ],
    ids=lambda steps: str(steps)[:60],
)
def test_a_body_that_ends_too_early_is_tried_again(answer: Steps) -> None:
    whole = reply(FILE[:100], 206, {"content-range": "bytes 0-99/2000"})
    rest = reply(FILE[60:100], 206, {"content-range": "bytes 60-99/2000"})

    def script(asked: Asked) -> Steps:
        if asked.number == 0:
            return answer
        return rest if asked.headers["range"] == "bytes=60-99" else whole

    with scripted(script) as server, pool() as http:
        assert http.get_range(server.url, 0, 100) == FILE[:100]
        assert len(server.asked) == 2


def test_a_stalled_server_is_left_after_the_time_without_a_byte() -> None:
    began = time.monotonic()
    http = pool(retries=RetryOptions(retries=1), read_seconds=0.2)
    with scripted(lambda asked: [Stall()]) as server, http, pytest.raises(UnavailableError, match="stopped responding"):
        http.request("GET", server.url)
    assert time.monotonic() - began < 5
