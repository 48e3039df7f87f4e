"""Files that are fetched are what their storage states: damage is found, and what only looks like a checksum is not."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.client.http import HttpPool
from lakeport.client.local_log import DATA, SignedUrl
from lakeport.client.storage import SharedStorage, Urls
from lakeport.client.sync.crc32c import Crc32c
from lakeport.client.sync.fetch import Fetcher
from lakeport.client.sync.plan import VersionPlan, Wanted
from lakeport.client.sync.stated import Stated, stated_in
from lakeport.engine import memory_engine
from lakeport.errors import CorruptTableError
from lakeport.kernel.scan_files import ScanFile
from tests.client.scripted_http import Asked, Steps, reply, scripted

MD5 = hashlib.md5(b"x").digest()
HEX, BASE64 = MD5.hex(), base64.b64encode(MD5).decode()
S3 = {"x-amz-request-id": "1", "etag": f'"{HEX}"'}
AMAZON = S3 | {"server": "AmazonS3", "x-amz-server-side-encryption": "AES256"}
AZURE = {"x-ms-request-id": "1"}


@pytest.mark.parametrize(
    ("headers", "certain"),
    [
        (AMAZON, True),
        (S3, False),
        (S3 | {"x-amz-server-side-encryption": "AES256"}, False),
        ({"x-goog-hash": f"crc32c=n03x6A==, md5={BASE64}", "x-goog-stored-content-encoding": "identity"}, True),
        (AZURE | {"x-ms-blob-content-md5": BASE64, "content-md5": "of the range"}, False),
    ],
)
def test_a_storage_states_the_md5_of_a_whole_file(headers: Mapping[str, str], certain: bool) -> None:
    assert stated_in(206, headers) == Stated("md5", MD5, certain)


def test_google_states_a_crc_where_it_has_no_md5() -> None:
    assert stated_in(206, {"x-goog-hash": "crc32c=4waSgw=="}) == Stated("crc32c", bytes.fromhex("e3069283"), True)


@pytest.mark.parametrize(
    "headers",
    [
        {"etag": f'"{HEX}"'},  # of whatever
        {"content-md5": BASE64},
        AZURE | {"content-md5": BASE64},  # of a range
        AZURE | {"etag": '"0x8DBF2E6A2D1C0F3"'},
        AZURE | {"x-ms-blob-content-md5": "not base64"},
        S3 | {"etag": f'"{HEX}-3"'},  # uploaded in parts
        S3 | {"etag": f'W/"{HEX}"'},
        AMAZON | {"x-amz-server-side-encryption": "aws:kms"},
        AMAZON | {"x-amz-server-side-encryption": "aws:kms:dsse"},
        S3 | {"x-amz-server-side-encryption-customer-algorithm": "AES256"},
        AMAZON | {"x-amz-storage-class": "EXPRESS_ONEZONE"},
        {"x-goog-hash": f"md5={BASE64}", "x-goog-stored-content-encoding": "gzip"},
        {"x-goog-hash": "md5=AAAA"},
    ],
)
def test_what_is_not_known_to_be_one_is_not_taken_for_one(headers: Mapping[str, str]) -> None:
    assert stated_in(206, headers) is None


def test_azure_states_the_md5_of_a_whole_answer() -> None:
    assert stated_in(200, AZURE | {"content-md5": BASE64}) == Stated("md5", MD5, is_certain=False)


@dataclass(frozen=True)
class FixedUrls:
    url: str

    def current(self, path: str) -> str:
        return f"{self.url}/{path.split('/')[-2]}"

    def refused(self, path: str, url: str) -> str:
        return url

    def signed(self, path: str) -> SignedUrl:
        return SignedUrl(self.current(path), None)

    def part(self, paths: Iterable[str]) -> Urls:
        return self


def parquet(rows: int) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": range(rows)}), sink)
    return bytes(sink.getvalue())


FILES = {f"f{number}": parquet(number + 1) for number in range(3)}
ROOT = "memory:///copy"

State = Callable[[bytes], Mapping[str, str]]


def amazon(content: bytes) -> Mapping[str, str]:
    return AMAZON | {"etag": f'"{hashlib.md5(content).hexdigest()}"'}


def another_s3(content: bytes) -> Mapping[str, str]:
    return S3 | {"etag": f'"{hashlib.md5(content).hexdigest()}"'}


def encrypting(content: bytes) -> Mapping[str, str]:
    """An ETag that is none of the content's, from a storage that says nothing about it."""
    return S3 | {"etag": f'"{hashlib.md5(content + b"key").hexdigest()}"'}


def google(content: bytes) -> Mapping[str, str]:
    return {"x-goog-hash": f"md5={base64.b64encode(hashlib.md5(content).digest()).decode()}"}


def google_in_parts(content: bytes) -> Mapping[str, str]:
    checksum = Crc32c()
    checksum.update(content)
    return {"x-goog-hash": f"crc32c={base64.b64encode(checksum.digest()).decode()}"}


def azure(content: bytes) -> Mapping[str, str]:
    return AZURE | {"x-ms-blob-content-md5": base64.b64encode(hashlib.md5(content).digest()).decode()}


Damage = Callable[[str, int, bytes], bytes]
"""What is sent of a file in its place, by its name and how often it was asked for before."""


def damaged(content: bytes, by: int = 1) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ by]) + content[middle + 1 :]


def at_first(name: str, times: int, content: bytes) -> bytes:
    return damaged(content) if name == "f1" and times == 0 else content


def always(name: str, times: int, content: bytes) -> bytes:
    return damaged(content) if name == "f1" else content


def never(name: str, times: int, content: bytes) -> bytes:
    return content


def fetched(state: State, damage: Damage) -> tuple[dict[str, bytes], list[str]]:
    """The files as they were fetched, and the names that were asked for."""

    def answer(asked: Asked) -> Steps:
        name = asked.path[1:]
        times = sum(one.path == asked.path and one.number < asked.number for one in server.asked)
        content = FILES[name]
        first, last = map(int, asked.headers["range"].removeprefix("bytes=").split("-"))
        spans = {"content-range": f"bytes {first}-{last}/{len(content)}"}
        return reply(damage(name, times, content)[first : last + 1], 206, {**spans, **state(content)})

    with scripted(answer) as server, HttpPool() as http:
        source = SharedStorage(http)
        paths = {name: f"{DATA}/t/{name}/{len(content)}" for name, content in FILES.items()}
        source.add_files(paths.values(), FixedUrls(server.url), "t")
        wanted = [Wanted(ScanFile(path=paths[name], size=len(FILES[name])), "") for name in FILES]
        storage = memory_engine().storage
        fetcher = Fetcher(storage, ROOT)
        try:
            placed = fetcher.fetch(VersionPlan(added=wanted, restated=[], removed=[]), source)
        finally:
            names = [asked.path[1:] for asked in server.asked]
            left = {file.path.rpartition("/")[2].partition(".")[0] for file in storage.list_from(ROOT, "")}
            assert fetcher.files == len(left)
        return {name: storage.read(f"{ROOT}/{path}") for name, path in placed.items()}, sorted(names)


STATES = [amazon, another_s3, google, google_in_parts, azure]
each_state = pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)


@each_state
def test_files_that_are_as_stated_are_fetched_once(state: State) -> None:
    assert fetched(state, never) == (FILES, ["f0", "f1", "f2"])


@each_state
def test_a_byte_that_is_damaged_on_the_way_is_fetched_again(state: State) -> None:
    assert fetched(state, at_first) == (FILES, ["f0", "f1", "f1", "f2"])


@pytest.mark.parametrize("state", [amazon, google, google_in_parts], ids=lambda state: state.__name__)
def test_a_file_that_stays_other_than_its_storage_has_computed_is_refused(state: State) -> None:
    with pytest.raises(CorruptTableError, match=r"the file is damaged.*ask the provider.*f1"):
        fetched(state, always)


@each_state
def test_a_file_that_is_damaged_in_another_way_each_time_is_refused(state: State) -> None:
    def differently(name: str, times: int, content: bytes) -> bytes:
        return damaged(content, times + 1) if name == "f1" else content

    with pytest.raises(CorruptTableError, match="the file is damaged"):
        fetched(state, differently)


def test_an_etag_that_proves_to_be_no_md5_is_no_damage() -> None:
    """The storage sends the same bytes twice; then its ETags are not looked at any more."""
    files, names = fetched(encrypting, never)
    assert files == FILES
    assert set(names) == FILES.keys()
    assert len(names) <= 2 * len(FILES)
