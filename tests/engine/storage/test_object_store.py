import os
import random
import socket
from collections.abc import Callable
from datetime import timedelta

import pytest
from obstore import sign
from obstore.store import MemoryStore

from lakeport.engine.storage.failures import store_errors
from lakeport.engine.storage.objects import ObjectFiles, open_object_files, open_store
from lakeport.engine.storage.storage import Storage
from lakeport.errors import AccessDeniedError, StorageError, UnusableStorageError
from lakeport.testing.http import Asked, Close, Pause, Stall, Steps, head, reply, scripted

_S3 = {"aws_endpoint": "http://127.0.0.1:9000", "region": "us-east-1", "access_key_id": "a", "secret_access_key": "b"}


@pytest.mark.parametrize("name", ["allow_http", "ALLOW_HTTP", "aws_allow_http", "AWS_ALLOW_HTTP"])
def test_options_of_the_http_client_are_known_by_all_their_names(name: str) -> None:
    store = open_store("s3://bucket", _S3 | {name: "true"})
    assert sign(store, "GET", "x", timedelta(seconds=1)).startswith("http://127.0.0.1:9000/bucket/x?")  # type: ignore[arg-type]


@pytest.mark.parametrize("option", [{"aws_timeout": "5s"}, {"proxy_excludes": "localhost"}, {"http1_only": "true"}])
def test_options_of_the_http_client_open_a_store(option: dict[str, str]) -> None:
    open_store("s3://bucket", _S3 | option)


def test_an_option_that_no_store_has_is_named() -> None:
    with pytest.raises(StorageError, match="nonsense"):
        open_store("s3://bucket", _S3 | {"nonsense": "1"})


@pytest.mark.parametrize("name", ["azure_storage_account_key", "AZURE_CLIENT_ID", "google_service_account"])
def test_options_that_name_another_cloud_are_for_its_stores(name: str) -> None:
    assert open_store("s3://bucket", _S3 | {name: "x"}).config == open_store("s3://bucket", _S3).config


@pytest.mark.parametrize("directory", ["s3://bucket", "s3://bucket/t"])
def test_a_directory_is_listed_alone(directory: str) -> None:
    files = ObjectFiles("s3://bucket", MemoryStore())
    for name in ("a", "b/c", "b/d/e", "_hidden/f", "p=a b%20/g"):
        files.write(f"{directory}/{name}", b"12")
    found, directories = files.list_directory(directory)
    assert [(file.path, file.size) for file in found] == [(f"{directory}/a", 2)]
    assert sorted(directories) == [f"{directory}/{name}" for name in ("_hidden", "b", "p=a b%20")]
    assert files.list_directory(f"{directory}/nowhere") == ([], [])


HEADERS = {"last-modified": "Mon, 16 Nov 2026 00:00:00 GMT", "etag": "x"}


def ranges_of(content: bytes, slowly: bool = False) -> Callable[[Asked], Steps]:
    """Answers for ranges of an object; slowly: with a pause in the middle of each body."""

    def answer(asked: Asked) -> Steps:
        if asked.method == "HEAD":
            return [head(200, {"content-length": str(len(content)), **HEADERS})]
        first, last = map(int, asked.headers["range"].removeprefix("bytes=").split("-"))
        part = content[first : last + 1]
        if not part:
            return reply(b"", 416, {"content-range": f"bytes */{len(content)}"})
        whole = {"content-range": f"bytes {first}-{first + len(part) - 1}/{len(content)}", **HEADERS}
        opening, body = reply(part, 206, whole)
        assert isinstance(body, bytes)
        pause: Steps = [Pause(0.3)] if slowly else []
        return [opening, body[:9], *pause, body[9:99], *pause, body[99:999], *pause, body[999:]]

    return answer


def test_a_read_times_out_on_silence_and_not_on_size() -> None:
    content = bytes(range(250)) * 8
    with scripted(ranges_of(content, slowly=True)) as server:
        files = open_object_files(server.url, {"read_timeout": "0.6s"})
        assert files.read(f"{server.url}/x", 0, len(content)) == content  # takes longer than 0.6 s
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    "sent", [[], [head(206, {"content-length": "9", "content-range": "bytes 0-8/9", **HEADERS}), b"123"]]
)
def test_a_storage_that_falls_silent_is_said_to_time_out(sent: Steps) -> None:
    with scripted(lambda _: [*sent, Stall(5)]) as server:
        files = open_object_files(server.url, {"read_timeout": "0.2s"})
        with pytest.raises(StorageError, match="timed out: the storage sent nothing for too long"):
            files.read(f"{server.url}/x", 0, 9)


def test_the_whole_time_of_a_request_is_limited_only_if_somebody_asks_for_it() -> None:
    assert open_store("s3://bucket", _S3).client_options == {"timeout": "1day", "read_timeout": "30s"}
    with scripted(ranges_of(bytes(2000), slowly=True)) as server:
        files = open_object_files(server.url, {"timeout": "0.4s"})
        with pytest.raises(StorageError, match="timed out"):
            files.read(f"{server.url}/x", 0, 2000)


def test_an_upload_has_more_time_than_a_download() -> None:
    with scripted(lambda _: [Pause(0.5), *reply(headers=HEADERS)]) as server:
        files = open_object_files(server.url, {}, silence=timedelta(seconds=0.2))
        with pytest.raises(StorageError, match="timed out"):
            files.read(f"{server.url}/x", 0, 9)
        files.write(f"{server.url}/x", b"1", overwrite=True)


def test_a_long_range_is_read_in_pieces() -> None:
    content = random.Random(7).randbytes((20 << 20) + 5)
    with scripted(ranges_of(content)) as server:
        files = open_object_files(server.url, {})
        assert files.read(f"{server.url}/x", 3, len(content) - 3) == content[3:]
        asked = sorted(asked.headers["range"] for asked in server.asked)
        assert asked == ["bytes=16777219-20971524", "bytes=3-8388610", "bytes=8388611-16777218"]


def test_a_file_that_is_shorter_than_the_caller_thinks_ends_where_it_ends() -> None:
    content = bytes((8 << 20) + 5)
    with scripted(ranges_of(content)) as server:
        files = open_object_files(server.url, {})
        assert len(files.read(f"{server.url}/x", 0, 10**15)) == len(content)
        assert len(server.asked) < 20


def test_an_object_that_is_overwritten_while_it_is_read_is_an_error() -> None:
    store = MemoryStore()
    files = ObjectFiles("s3://bucket", store)
    files.write("s3://bucket/x", bytes(3 << 20))
    [status] = files.list_all("s3://bucket")
    with files.open_input(status) as source:
        assert source.read(5) == bytes(5)
        files.write("s3://bucket/x", b"1" * (3 << 20), overwrite=True)
        with pytest.raises(StorageError, match="overwritten while it was read"):
            source.read(5)
    with files.open_input(status) as source:
        assert source.read(5) == b"11111"


def test_pieces_of_two_contents_are_not_joined() -> None:
    content = bytes(20 << 20)
    whole = ranges_of(content)

    def answer(asked: Asked) -> Steps:
        opening, *body = whole(asked)
        assert isinstance(opening, bytes)
        return [opening.replace(b"etag: x", b"etag: y") if asked.number == 2 else opening, *body]

    with scripted(answer) as server, pytest.raises(StorageError, match="overwritten while it was read"):
        open_object_files(server.url, {}).read(f"{server.url}/x", 0, len(content))


@pytest.mark.parametrize("status", [408, 500, 503])
def test_a_storage_that_fails_for_good_is_asked_five_times(status: int) -> None:
    with scripted(lambda _: reply(b"busy", status)) as server:
        with pytest.raises(StorageError, match=f"status code: {status}|after 4 retries"):
            open_object_files(server.url, {}).read(f"{server.url}/x", 100, 9)
        assert [asked.method for asked in server.asked] == ["GET"] * 5


def wrong_ranges() -> dict[str, Steps]:
    part = {"content-range": "bytes 100-108/2000", **HEADERS}
    return {
        "the whole object": reply(bytes(2000), 200, HEADERS),
        "other bytes": reply(bytes(9), 206, part | {"content-range": "bytes 0-8/2000"}),
        "too few bytes": reply(bytes(4), 206, part | {"content-range": "bytes 100-103/2000"}),
        "no range": reply(bytes(9), 206, HEADERS),
        "no such range, although there is": reply(b"", 416, {"content-range": "bytes */2000"}),
    }


@pytest.mark.parametrize("case", wrong_ranges())
def test_other_bytes_than_those_requested_are_an_error(case: str) -> None:
    def answer(asked: Asked) -> Steps:
        return ranges_of(bytes(2000))(asked) if asked.method == "HEAD" else wrong_ranges()[case]

    with scripted(answer) as server, pytest.raises(StorageError):
        open_object_files(server.url, {}).read(f"{server.url}/x", 100, 9)


def test_a_body_that_breaks_off_is_fetched_to_its_end() -> None:
    content = random.Random(7).randbytes(2000)

    def answer(asked: Asked) -> Steps:
        opening, *body = ranges_of(content)(asked)
        return [opening, *body[:1], Close()] if asked.number < 2 else [opening, *body]

    with scripted(answer) as server:
        assert open_object_files(server.url, {}).read(f"{server.url}/x", 100, 999) == content[100:1099]


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def test_missing_credentials_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    nowhere = f"http://127.0.0.1:{closed_port()}"
    files = open_object_files("s3://bucket", {"aws_metadata_endpoint": nowhere, "allow_http": "true"})
    with pytest.raises(
        AccessDeniedError, match=r"no credentials for S3: pass .*access_key_id.*AWS_ACCESS_KEY_ID"
    ) as failed:
        files.read("s3://bucket/x")
    assert "127.0.0.1" not in str(failed.value)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "Generic GCS error: … GET http://169.254.169.254/computeMetadata/v1/instance/…",
            "for GCS: .*APPLICATION_CRED",
        ),
        (
            "Generic MicrosoftAzure error: … http://169.254.169.254/metadata/identity/oauth2",
            "for MicrosoftAzure: .*sas_key",
        ),
    ],
)
def test_missing_credentials_of_other_clouds_are_named(said: str, expected: str) -> None:
    with pytest.raises(AccessDeniedError, match=expected), store_errors("x://y"):
        raise OSError(said)


def test_a_url_with_one_slash_is_named_in_the_error() -> None:
    with pytest.raises(UnusableStorageError, match=r"needs two slashes .* \[s3:/bucket/table\]"):
        Storage().status("s3:/bucket/table")
