"""The unmodified `delta-sharing` client from PyPI reads through the server: every shareable table of the shared set, in
both formats, at its versions, and its changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeport
from lakeport.testing.builder import read
from tests.acceptance.comparing import assert_expected, assert_same_rows
from tests.acceptance.real_tables import (
    BY_NAME,
    LARGE,
    Entry,
    change_cases,
    changes_of,
    chosen,
    latest_rows,
    shared_name,
    table_of,
)
from tests.interop.shareable import (
    OWN,
    SHAREABLE,
    beyond_parquet,
    content,
    features_of,
    moment,
    same_columns,
    times,
)
from tests.interop.sharing_clients import Call, ClientError, PythonClient, python_client, write_profile
from tests.rows import canonical
from tests.server.running import Running, running

# Features that the client does not declare; the server names them to it.
UNDECLARED = {
    "typeWidening", "typeWidening-preview", "variantType", "variantType-preview", "variantShredding",
    "variantShredding-preview",
}  # fmt: skip
# What goes wrong in the client itself, by format.
BROKEN = {
    ("delta44--void", "parquet"): "Could not parse datatype: void",
    ("delta44--void", "delta"): "Unsupported Delta table type: 'void'",
    ("krs--void-column", "parquet"): "Could not parse datatype: void",
    ("krs--void-column", "delta"): "Unsupported Delta table type: 'void'",
    # A file without rows: its kernel gives no batch, and so no schema.
    ("spark--dbr_8_0_non_generated_columns", "delta"): "Must pass schema, or at least one RecordBatch",
}
# And in changes, in the delta format.
BROKEN_CHANGES = {
    "delta44--cdf-later": "Start and end version schemas are different",
    "delta44--upgraded": "timestampNtz",  # which it declares for snapshots
    "deltalake--upgraded": "timestampNtz",
}
# pandas takes NaN for null, has no integers beside nulls, and no early times; the last is read from its files.
BEYOND_PANDAS = {
    "delta33--partition-values", "delta33--times", "delta33--types", "delta44--floats", "delta44--partition-types",
    "delta44--partition-values", "delta44--times", "delta44--types", "deltalake--partition-values",
    "deltalake--types", "odd--partition-column-in-files",
}  # fmt: skip
READ = [name for name in SHAREABLE if name not in BEYOND_PANDAS]
FORMATS = {"parquet": False, "delta": True}


@dataclass(frozen=True)
class Shared:
    """The client, and what is shared with it."""

    client: PythonClient
    server: Running
    profile: str
    folder: Path
    """Where the tables of our own are."""

    def load(self, table: str, schema: pa.Schema | None = None, **arguments: Any) -> Call:
        return Call("load_as_pandas", {"url": f"{self.profile}#{table}", **arguments}, schema)

    def changes(self, table: str, schema: pa.Schema, **arguments: Any) -> Call:
        return Call("load_table_changes_as_pandas", {"url": f"{self.profile}#{table}", **arguments}, schema)

    def rows(self, call: Call) -> pa.Table:
        (answer,) = self.client.call(call)
        if isinstance(answer, ClientError):
            raise answer
        assert isinstance(answer, pa.Table)
        return answer


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = tmp_path_factory.mktemp("shared with python")
    with python_client(folder) as client, running(content(folder)) as server:
        yield Shared(client, server, write_profile(server, folder), folder)


def undeclared(entry: Entry) -> str | None:
    """Which features of the table the client does not declare, as the server says it."""
    return ", ".join(sorted(UNDECLARED & set(entry["protocol"]["readerFeatures"]))) or None


def refusal(name: str, response_format: str) -> str | None:
    """What the client is told, or says, instead of the rows."""
    if (name, response_format) in BROKEN:
        return BROKEN[name, response_format]
    if response_format == "delta":
        return undeclared(BY_NAME[name])
    return next(iter(sorted(beyond_parquet(name))), None)


def test_the_client_lists_shares_schemas_and_tables(shared: Shared) -> None:
    (listed,) = shared.client.call(Call("listing", {"profile": shared.profile}))
    own = (f"own.default.{name}" for name in (*OWN, "appended", "everything"))
    names = sorted([*map(shared_name, SHAREABLE), *own])
    assert sorted(listed["tables"]) == sorted(listed["all tables"]) == names
    assert sorted(listed["schemas"]) == sorted({name.rpartition(".")[0] for name in names})
    assert sorted(listed["shares"]) == sorted({name.partition(".")[0] for name in names})


@chosen(lambda entry: entry["name"] in READ)
def test_the_client_reads_every_table_in_the_format_that_it_finds_out(shared: Shared, name: str) -> None:
    (found,) = shared.client.call(shared.load(shared_name(name), latest_rows(name).schema))
    assert_rows_or_refusal(name, found, refusal(name, format_of(name)))


@chosen(lambda entry: entry["name"] in READ and entry["expected"]["rows"] <= LARGE)
def test_the_client_reads_every_table_in_the_other_format(shared: Shared, name: str) -> None:
    other = "parquet" if format_of(name) == "delta" else "delta"
    call = shared.load(shared_name(name), latest_rows(name).schema, use_delta_format=FORMATS[other])
    (found,) = shared.client.call(call)
    assert_rows_or_refusal(name, found, refusal(name, other))


def format_of(name: str) -> str:
    """The format that the server chooses for a client that knows both."""
    return "delta" if features_of(name) else "parquet"


def assert_rows_or_refusal(name: str, found: Any, told: str | None) -> None:
    if told is not None:
        assert isinstance(found, ClientError)
        assert told in " ".join(str(found).replace("'", "").split()) or told in str(found)
    elif isinstance(found, ClientError):
        raise found
    else:
        assert_expected(name, found, BY_NAME[name]["expected"])


def some_versions(entry: Entry) -> list[int]:
    """The first and the last but one of the versions whose rows are told."""
    versions = sorted(map(int, entry.get("expected_versions") or ()))[:-1]
    return sorted({versions[0], versions[-1]}) if versions else []


def has_versions(entry: Entry) -> bool:
    readable = entry["name"] in READ and not undeclared(entry)
    return readable and (entry["name"], "delta") not in BROKEN and bool(some_versions(entry))


@chosen(has_versions)
def test_the_client_reads_earlier_versions(shared: Shared, name: str) -> None:
    for version in some_versions(BY_NAME[name]):
        expected = read(table_of(name).snapshot_at_version(version))
        call = shared.load(shared_name(name), expected.schema, version=version, use_delta_format=True)
        assert_expected(name, shared.rows(call), BY_NAME[name]["expected_versions"][str(version)])


@pytest.mark.parametrize("response_format", FORMATS)
@pytest.mark.parametrize(("name", "case"), change_cases("parquet"))
def test_the_client_reads_the_changes_of_every_table(
    shared: Shared, name: str, case: Entry, response_format: str
) -> None:
    schema = changes_schema(changes_of(name, case).to_arrow().schema, response_format)
    versions = {"starting_version": case["start"], "ending_version": case["end"]}
    call = shared.changes(shared_name(name), schema, use_delta_format=FORMATS[response_format], **versions)
    protocol = BY_NAME[name]["protocol"]
    if response_format == "parquet" and ({"deletionVectors"} & set(protocol["readerFeatures"]) or beyond_parquet(name)):
        with pytest.raises(ClientError, match="UNSUPPORTED_OPERATION"):
            shared.rows(call)
        return
    if response_format == "delta" and name in BROKEN_CHANGES:
        with pytest.raises(ClientError, match=BROKEN_CHANGES[name]):
            shared.rows(call)
        return
    assert_same_rows(shared.rows(call).drop(["_commit_timestamp"]), pq.read_table(case["parquet"]))


def changes_schema(schema: pa.Schema, response_format: str) -> pa.Schema:
    """In the parquet format the client gives commit timestamps as numbers."""
    if response_format == "delta":
        return schema
    index = schema.get_field_index("_commit_timestamp")
    return schema.set(index, pa.field("_commit_timestamp", pa.int64()))


# Tables of our own


@pytest.mark.parametrize("name", OWN)
def test_the_client_reads_each_version_and_the_version_of_each_moment(shared: Shared, name: str) -> None:
    path = str(shared.folder / name)
    for version, made in times(path).items():
        ours = lakeport.scan(path).at(version=version).to_arrow()
        by_version = shared.load(f"own.default.{name}", ours.schema, version=version)
        by_time = shared.load(f"own.default.{name}", ours.schema, timestamp=moment(made))
        assert canonical(shared.rows(by_version)) == canonical(shared.rows(by_time)) == canonical(ours)


@pytest.mark.parametrize("name", OWN)
def test_the_client_learns_the_latest_version_and_the_first_since_a_moment(shared: Shared, name: str) -> None:
    made = times(str(shared.folder / name))
    url = f"{shared.profile}#own.default.{name}"
    asked = [
        Call("get_table_version", {"url": url}),
        Call("get_table_version", {"url": url, "starting_timestamp": moment(made[2])}),
    ]
    assert shared.client.call(*asked) == [4, 2]


@pytest.mark.parametrize("flag", [False, True, None])
def test_the_client_stops_at_a_limit(shared: Shared, flag: bool | None) -> None:
    for limit in (0, 1, 7, 1000):
        call = shared.load("own.default.plain", limit=limit, use_delta_format=flag)
        assert shared.rows(call).num_rows == min(limit, 27)


@pytest.mark.parametrize("name", OWN)
def test_files_that_a_hint_rules_out_are_not_sent_to_the_client(shared: Shared, name: str) -> None:
    day = {"op": "column", "name": "day", "valueType": "string"}
    hint = {"op": "equal", "children": [day, {"op": "literal", "value": "2026-01-01", "valueType": "string"}]}
    found = shared.rows(shared.load(f"own.default.{name}", jsonPredicateHints=json.dumps(hint)))
    ours = lakeport.scan(str(shared.folder / name)).where("day = '2026-01-01'").to_arrow()
    assert same_columns(found, "id", "day", "amount") == same_columns(ours, "id", "day", "amount")


@pytest.mark.parametrize("response_format", FORMATS)
def test_the_client_reads_changes_of_every_kind_with_their_versions_and_times(
    shared: Shared, response_format: str
) -> None:
    path = str(shared.folder / "plain")
    ours = lakeport.scan(path).changes(1, 4).to_arrow()
    schema = changes_schema(ours.schema, response_format)
    call = shared.changes(
        "own.default.plain", schema, starting_version=1, ending_version=4, use_delta_format=FORMATS[response_format]
    )
    found = shared.rows(call)
    columns = ("id", "day", "amount", "_change_type", "_commit_version")
    assert same_columns(found, *columns) == same_columns(ours, *columns)
    unit = 1 if response_format == "parquet" else 1000  # its kernel has the seconds of a file's time
    theirs = found.column("_commit_timestamp").cast(pa.timestamp("ms")).cast(pa.int64()).to_pylist()
    by_version = dict(zip(found.column("_commit_version").to_pylist(), theirs, strict=True))
    made = {version: time // unit for version, time in times(path).items() if version}
    assert {version: time // unit for version, time in by_version.items()} == made


def test_the_client_reads_changes_since_a_moment(shared: Shared) -> None:
    path = str(shared.folder / "plain")
    schema = changes_schema(lakeport.scan(path).changes(3).to_arrow().schema, "parquet")
    found = shared.rows(shared.changes("own.default.plain", schema, starting_timestamp=moment(times(path)[3])))
    assert set(found.column("_commit_version").to_pylist()) == {3, 4}


def test_the_client_reads_every_version_of_a_table_with_every_feature(shared: Shared) -> None:
    path = str(shared.folder / "everything")
    for version in times(path):
        ours = lakeport.scan(path).at(version=version).to_arrow()
        call = shared.load("own.default.everything", ours.schema, version=version, use_delta_format=True)
        assert canonical(shared.rows(call)) == canonical(ours), f"version {version}"
