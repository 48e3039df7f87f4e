"""Real tables of other implementations, as recipients read them: by signed URLs, in both formats."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests

import lakeport
from tests.acceptance.comparing import assert_expected, assert_same_rows
from tests.acceptance.real_tables import (
    BY_NAME,
    ERRORS,
    REFUSED,
    Entry,
    change_cases,
    chosen,
    is_planned,
    is_shareable,
    path_of,
    shared_name,
)
from tests.conformance.reading import LocalLog, local_changes
from tests.conformance.target import Answer, File, SharedTable, Target
from tests.server.running import TOKEN, Running

FEATURES = [
    "deletionvectors", "columnmapping", "timestampntz", "typewidening", "typewidening-preview", "varianttype",
    "varianttype-preview", "variantshredding-preview", "v2checkpoint",
]  # fmt: skip
DELTA = f"responseformat=delta;readerfeatures={','.join(FEATURES)}"
PARQUET = "responseformat=parquet"


@pytest.fixture(scope="module")
def server(real_tables_server: Running) -> Iterator[Target]:
    with requests.Session() as session:
        yield Target(real_tables_server.endpoint, TOKEN, {}, own=True, session=session)


def shared(server: Target, name: str) -> SharedTable:
    return SharedTable(server, *shared_name(name).split("."), path_of(name))


def is_refused(answer: Answer) -> bool:
    """Whether the answer is a refusal that names what the client lacks."""
    if answer.response.status_code == 200:
        return False
    assert answer.response.status_code == 400, answer.response.text
    body = answer.response.json()
    assert body["errorCode"] == "UNSUPPORTED_OPERATION"
    assert any(feature in body["message"].lower() for feature in [*FEATURES, "auxiliarylocations"]), body
    return True


def read(answer: Answer, directory: Path) -> pa.Table:
    LocalLog(answer, directory).commit(0, answer.files)
    return lakeport.scan(str(directory)).to_arrow()


@chosen(is_shareable)
def test_the_rows_by_signed_urls_are_those_expected(server: Target, name: str, tmp_path: Path) -> None:
    table = shared(server, name)
    delta = table.query(DELTA)
    assert delta.version == BY_NAME[name]["state"]["version"]
    assert table.metadata(DELTA).lines == delta.lines[:2]
    found = read(delta, tmp_path / "delta")
    assert_expected(name, found, BY_NAME[name]["expected"])
    parquet = table.query(PARQUET)
    if not is_refused(parquet):
        assert_same_rows(read(parquet, tmp_path / "parquet"), found)


@chosen(is_planned)
def test_pages_make_up_the_whole(server: Target, name: str) -> None:
    table = shared(server, name)
    answer = table.query(DELTA)
    if "needs" in BY_NAME[name]["expected"] or is_refused(answer):
        assert answer.response.status_code == 400
        return
    whole = sorted(file.body["id"] for file in answer.files)
    assert len(whole) == BY_NAME[name]["expected"].get("active_files", BY_NAME[name]["state"]["active_files"])
    paged: list[str] = []
    token: dict[str, str] = {}
    while True:
        page = table.query(DELTA, maxFiles=max(1, len(whole) // 2), **token)
        paged += [file.body["id"] for file in page.files]
        assert page.end is not None
        if "nextPageToken" not in page.end:
            break
        token = {"pageToken": page.end["nextPageToken"]}
    assert sorted(paged) == whole


@chosen(lambda entry: entry["expected"]["kind"] == "error" and "FileNotFound" not in entry["expected"]["error_class"])
def test_what_cannot_be_read_is_refused_for_good(server: Target, name: str) -> None:
    assert BY_NAME[name]["expected"]["error_class"] in ERRORS
    for answer in (shared(server, name).query(DELTA), shared(server, name).metadata(PARQUET)):
        assert answer.response.status_code == 400
        assert answer.response.json()["errorCode"] == "RESOURCE_DOES_NOT_EXIST"
        assert path_of(name) not in answer.response.text


@pytest.mark.shared
@pytest.mark.parametrize(("name", "feature"), list(REFUSED.items()))
def test_a_feature_that_the_server_does_not_know_is_refused_by_name(server: Target, name: str, feature: str) -> None:
    answer = shared(server, name).query(DELTA + f",{feature}")
    assert answer.response.status_code == 400
    assert answer.response.json()["errorCode"] == "UNSUPPORTED_OPERATION"
    assert feature in answer.response.json()["message"]


@pytest.mark.parametrize(("name", "case"), change_cases("parquet"))
def test_the_changes_by_signed_urls_are_those_expected(server: Target, name: str, case: Entry, tmp_path: Path) -> None:
    table = shared(server, name)
    expected = pq.read_table(case["parquet"])
    latest = table.version().version
    window = {"startingVersion": case["start"]} | ({} if case["end"] is None else {"endingVersion": case["end"]})
    end = latest if case["end"] is None else case["end"]
    for number, capabilities in enumerate((DELTA, PARQUET)):
        answer = table.changes(capabilities, **window)
        if capabilities == DELTA or not is_refused(answer):
            found = local_changes(answer, tmp_path / str(number), end)
            assert_same_rows(found.drop(["_commit_timestamp"]), expected)


@chosen(is_shareable)
def test_a_stream_from_the_first_commit_that_is_left_ends_in_the_snapshot(server: Target, name: str) -> None:
    table = shared(server, name)
    first = table.version(startingTimestamp="1970-01-01T00:00:00Z").version
    live = {file.body["id"] for file in table.query(DELTA, version=first).files}
    for file in sorted(table.query(DELTA, startingVersion=first).files, key=in_order_of_commits):
        if file.body["version"] > first:
            (live.add if file.kind == "add" else live.discard)(file.body["id"])
    if not has_rearranging_commits(name):
        assert {file.body["id"] for file in table.query(DELTA).files} == live


def in_order_of_commits(file: File) -> tuple[int, bool]:
    return file.body["version"], file.kind == "add"


def has_rearranging_commits(name: str) -> bool:
    """Files of commits that change no rows are in no stream."""
    commits = Path(path_of(name), "_delta_log").glob("*.json")
    return any(b'"dataChange":false' in commit.read_bytes() for commit in commits)
