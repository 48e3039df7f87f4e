"""What the tests of the reference Python client promise, kept here: one section for each of its test files.

Promises that other tests of ours hold already (retries, tokens, lists, pages, names, deletion vectors, column mapping)
are not repeated. Its servers are mocks that leave out what the protocol demands; the ones here keep to the protocol.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakeport
from lakeport import tables
from lakeport.client.auth import open_profile
from lakeport.client.rest.server import SharingServer
from lakeport.errors import CorruptTableError, SharingError, UnsupportedFeatureError
from lakeport.frame import Frame
from lakeport.sharing.names import is_table_url, parse_table_url
from lakeport.sharing.profile import Basic, BearerToken, OAuthClientCredentials, OAuthPrivateKeyJwt
from lakeport.testing.http import reply
from tests.client.provider import FORMATS, DataFile, Format, Shared, providing, schema
from tests.client.reading import frame_of, server_at
from tests.client.shares import sharing_tables
from tests.properties import FEED
from tests.rows import texts_of
from tests.server.running import running, sharing

EACH_FORMAT = pytest.mark.parametrize("form", FORMATS)
COMMIT_COLUMNS = ["_change_type", "_commit_version", "_commit_timestamp"]


# test_reader.py: snapshots


@EACH_FORMAT
def test_a_read_that_fails_leaves_no_trace_in_the_next_one(form: Format) -> None:
    failed = reply(b'{"errorCode": "INTERNAL", "message": "list files failed"}', 400)
    shared = Shared(schema(a="long"), [DataFile("1", pa.table({"a": [1]}))], format=form, answers=[failed])
    with providing(shared) as provider:
        with pytest.raises(SharingError, match="list files failed"):
            provider.frame().to_arrow()
        assert provider.frame().to_arrow().num_rows == 1
        first, second = [one for one in provider.asked if one.path.endswith("/query")]
        assert (first.headers, first.body) == (second.headers, second.body)


@EACH_FORMAT
def test_files_are_read_one_after_the_other_up_to_the_limit(form: Format) -> None:
    parts = [pa.table({name: np.arange(i, i + 200_000, dtype="int32") for name in "abcd"}) for i in (0, 200_000)]
    shared = Shared(
        schema(**dict.fromkeys("abcd", "integer")), [DataFile(str(i), part) for i, part in enumerate(parts)]
    )
    shared.format = form
    whole = pa.concat_tables(parts)
    with providing(shared) as provider:
        assert provider.frame().to_arrow().equals(whole)
        assert "limitHint" not in provider.body("query")
        for limit in (2, 100_000, 300_000):
            assert provider.frame().limit(limit).to_arrow().equals(whole.slice(0, limit))
            assert provider.body("query")["limitHint"] == limit


@EACH_FORMAT
def test_timestamps_without_a_zone_are_of_utc(form: Format) -> None:
    moments = [datetime(2024, 1, 1), datetime(2024, 1, 2)]
    files = [
        DataFile(unit, pa.table({"a": [1, 2], "ts": pa.array(moments, pa.timestamp(unit))}), {"p": "2024-01-03"})
        for unit in ("ms", "us", "ns")
    ]
    with providing(Shared(schema(a="long", ts="timestamp", p="timestamp"), files, ["p"], form)) as provider:
        found = provider.frame().to_arrow()
    assert found.schema.types == [pa.int64(), *[pa.timestamp("us", "UTC")] * 2]
    assert found.column("ts").to_pylist() == [moment.replace(tzinfo=UTC) for moment in moments] * 3
    assert set(found.column("p").to_pylist()) == {datetime(2024, 1, 3, tzinfo=UTC)}


@EACH_FORMAT
def test_columns_of_files_are_found_whatever_the_case_of_their_names(form: Format) -> None:
    files = [DataFile(value, pa.table({"a": [number]}), {"B": value}) for number, value in enumerate("xy")]
    with providing(Shared(schema(A="long", B="string"), files, ["B"], form)) as provider:
        assert provider.frame().to_arrow().to_pylist() == [{"A": 0, "B": "x"}, {"A": 1, "B": "y"}]
        assert provider.frame().where("a = 1 AND b = 'y'").select("b", "a").to_arrow().num_rows == 1


@EACH_FORMAT
def test_files_may_lack_columns_and_have_them_in_another_order(form: Format) -> None:
    files = [
        DataFile("1", pa.table({"a": [1, 2]}), {"c": "2021-01-01", "d": "1"}, stats=""),
        DataFile("2", pa.table({"b": ["d"], "a": [4]}), {"d": "2", "c": "2021-01-02"}, stats=""),
    ]
    types = {"a": "long", "c": "date", "b": "string", "d": "integer"}
    with providing(Shared(schema(**types), files, ["c", "d"], form)) as provider:
        found = provider.frame().to_arrow()
        assert provider.frame().where("a > 1").count() == 2
    assert found.schema == pa.schema({"a": pa.int64(), "c": pa.date32(), "b": pa.string(), "d": pa.int32()})
    early, late = date(2021, 1, 1), date(2021, 1, 2)
    rows = [tuple(row.values()) for row in found.to_pylist()]
    assert rows == [(1, early, None, 1), (2, early, None, 1), (4, late, "d", 2)]


@EACH_FORMAT
def test_a_file_of_another_type_is_an_error_that_names_the_column(form: Format) -> None:
    with (
        providing(Shared(schema(a="long"), [DataFile("1", pa.table({"a": [4.5]}))], format=form)) as provider,
        pytest.raises(CorruptTableError, match="the column 'a' has the type double"),
    ):
        provider.frame().to_arrow()


@EACH_FORMAT
def test_a_partition_value_that_would_be_passed_over_is_an_error(form: Format) -> None:
    files = [DataFile("1", pa.table({"a": [1]}), {"b": "x"})]
    with (
        providing(Shared(schema(a="long", b="string"), files, (), form)) as provider,
        pytest.raises(SharingError, match="a partition value of 'b', which is not a partition column"),
    ):
        provider.frame().to_arrow()


@EACH_FORMAT
def test_a_size_that_is_not_told_is_an_error_rather_than_no_rows(form: Format) -> None:
    class Sizeless(Shared):
        def line(self, file: DataFile) -> dict[str, Any]:
            text = json.dumps(super().line(file))
            return dict(json.loads(text.replace(f'"size": {len(file.content)}', '"size": 0')))

    with (
        providing(Sizeless(schema(a="long"), [DataFile("1", pa.table({"a": [1]}))], format=form)) as provider,
        pytest.raises(CorruptTableError, match="size is 0 bytes"),
    ):
        provider.frame().to_arrow()


@EACH_FORMAT
@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_files_may_be_compressed_in_any_way(form: Format, compression: str) -> None:
    files = [DataFile("1", pa.table({"a": [True], "c": ["Hi"]}), compression=compression)]
    with providing(Shared(schema(a="boolean", c="string"), files, (), form)) as provider:
        assert provider.frame().to_arrow().to_pylist() == [{"a": True, "c": "Hi"}]


@EACH_FORMAT
def test_signed_urls_are_sent_as_they_were_signed(form: Format) -> None:
    """Above all `%3D` in a path, which some storages sign as it stands."""
    file = DataFile("day%3D1%2B2", pa.table({"a": [1]}), query="X-Sig=a%2Bb%3D%2F==&Expires=1+2&name=it's(*)~:@,;")
    with providing(Shared(schema(a="long"), [file], (), form)) as provider:
        assert provider.frame().to_arrow().num_rows == 1
        assert provider.asked[-1].target == f"/files/{file.id}.parquet?{file.query}"


# test_reader.py: changes


def changed(form: Format, files: list[DataFile], version: int = 1, **more: Any) -> Shared:
    """Only the delta format has to say that there is a feed."""
    configuration = FEED if form == "delta" else None
    types = schema(a="long", b="string")
    return Shared(types, files, format=form, version=version, configuration=configuration, **more)


@EACH_FORMAT
def test_added_removed_and_changed_rows_are_told_with_version_and_time(form: Format) -> None:
    kinds = {"add": "insert", "remove": "delete", "cdf": "update_preimage", "cdf ": "update_postimage"}
    files, expected = [], []
    for version, (kind, change) in enumerate(kinds.items(), 1):
        rows = pa.table({"a": [version, version * 10], "b": ["x", "y"]})
        kept = rows if kind in ("add", "remove") else rows.append_column("_change_type", [[change] * 2])
        files.append(DataFile(str(version), kept, {}, kind.strip(), version, 1652110000000 + version * 1000))
        when = datetime.fromtimestamp(1652110000 + version, UTC)
        expected += [(row["a"], row["b"], change, version, when) for row in rows.to_pylist()]
    with providing(changed(form, files)) as provider:
        changes = provider.frame().changes(1)
        assert [tuple(row.values()) for row in changes.to_arrow().to_pylist()] == expected
        assert list(changes.to_pandas().columns) == ["a", "b", *COMMIT_COLUMNS]


@EACH_FORMAT
def test_the_partitions_of_changes_come_from_their_lines(form: Format) -> None:
    files = [
        DataFile(change, pa.table({"a": [1, 2], "_change_type": [change] * 2}), {"b": "x"}, "cdf", 10, 1652140000000)
        for change in ("update_preimage", "update_postimage")
    ]
    with providing(changed(form, files, 10, partition_columns=["b"])) as provider:
        found = provider.frame().changes(10).to_arrow()
    assert found.column_names == ["a", "b", *COMMIT_COLUMNS]
    assert set(found.column("b").to_pylist()) == {"x"}
    assert found.column("_change_type").to_pylist() == ["update_preimage"] * 2 + ["update_postimage"] * 2


@EACH_FORMAT
def test_no_changes_are_no_rows_of_all_columns(form: Format) -> None:
    with providing(changed(form, [], 5)) as provider:
        changes = provider.frame().changes(5)
        assert (changes.count(), changes.to_pandas().empty) == (0, True)
        assert changes.to_arrow().column_names == ["a", "b", *COMMIT_COLUMNS]


# test_converter.py

VALUES: dict[str, tuple[str, Any]] = {
    "boolean": ("true", True),
    "byte": ("1", 1),
    "short": ("1", 1),
    "integer": ("1", 1),
    "long": ("1", 1),
    "float": ("1", 1.0),
    "double": ("1", 1.0),
    "decimal(10,0)": ("1", Decimal(1)),
    "string": ("abc", "abc"),
    "date": ("2021-01-01", date(2021, 1, 1)),
    "timestamp": ("2021-04-28 23:36:47.599", datetime(2021, 4, 28, 23, 36, 47, 599000, UTC)),
}


@EACH_FORMAT
def test_partition_values_are_parsed_by_their_types_and_empty_ones_are_null(form: Format) -> None:
    names = [f"p{number}" for number in range(len(VALUES))]
    given: list[Mapping[str, str | None]] = [
        dict(zip(names, (text for text, _ in VALUES.values()), strict=True)),
        dict.fromkeys(names, ""),
        dict.fromkeys(names, None),
        {},
    ]
    files = [DataFile(str(number), pa.table({"a": [number]}), values) for number, values in enumerate(given)]
    types = dict(zip(names, VALUES, strict=True))
    with providing(Shared(schema(a="long", **types), files, names, form)) as provider:
        first, *others = (list(row.values())[1:] for row in provider.frame().to_arrow().to_pylist())
    assert first == [value for _, value in VALUES.values()]
    assert others == [[None] * len(names)] * 3


@EACH_FORMAT
def test_a_table_without_files_has_the_columns_of_its_schema(form: Format) -> None:
    nested: dict[str, Any] = {
        "array": {"type": "array", "elementType": "string"},
        "struct": {"type": "struct", "fields": [{"name": "s", "type": "string"}, {"name": "i", "type": "integer"}]},
        "map": {"type": "map", "keyType": "string", "valueType": "integer"},
    }
    plain = {name.partition("(")[0]: name for name in [*VALUES, "binary"]}
    with providing(Shared(schema(**plain, **nested), (), (), form)) as provider:
        frame = provider.frame()
        assert (list(frame.to_batches()), frame.count(), frame.to_pandas().empty) == ([], 0, True)
        found = frame.to_arrow().schema
    assert found.names == [*plain, *nested]
    assert found.types == [
        *[pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(10, 0)],
        *[pa.string(), pa.date32(), pa.timestamp("us", "UTC"), pa.binary(), pa.list_(pa.field("element", pa.string()))],
        pa.struct({"s": pa.string(), "i": pa.int32()}),
        pa.map_(pa.string(), pa.int32()),
    ]


# test_protocol.py

ENDPOINT = "https://localhost/delta-sharing/"
KEY = {"privateKeyFile": "/path/key.pem", "keyId": "k", "algorithm": "RS256"}
TOKEN_ENDPOINT = "https://localhost/token"
OAUTH = {"tokenEndpoint": TOKEN_ENDPOINT, "clientId": "me"}
PROFILES: dict[str, tuple[dict[str, Any], Any]] = {
    "bearer": (
        {"type": "bearer_token", "bearerToken": "t", "expirationTime": "2099-11-12T00:12:29.0Z"},
        BearerToken(token="t", expiration_time="2099-11-12T00:12:29.0Z"),
    ),
    "basic": ({"type": "basic", "username": "u", "password": "p"}, Basic(username="u", password="p")),
    "secret": (
        {"type": "oauth_client_credentials", **OAUTH, "clientSecret": "s"},
        OAuthClientCredentials(token_endpoint=TOKEN_ENDPOINT, client_id="me", client_secret="s"),
    ),
    "key": (
        {
            "type": "oauth_jwt_bearer_private_key_jwt",
            "auth": {**OAUTH, "issuer": "i", "audience": "a", "scope": "s", "privateKey": KEY},
        },
        OAuthPrivateKeyJwt(
            token_endpoint=TOKEN_ENDPOINT,
            client_id="me",
            issuer="i",
            audience="a",
            scope="s",
            private_key_file="/path/key.pem",
            key_id="k",
            algorithm="RS256",
        ),
    ),
}


@pytest.mark.parametrize("kind", PROFILES)
def test_a_profile_is_read_from_a_path_a_url_of_a_file_and_an_open_file(tmp_path: Path, kind: str) -> None:
    content, credentials = PROFILES[kind]
    text = json.dumps({"shareCredentialsVersion": 2, "endpoint": ENDPOINT, **content})
    path = tmp_path / "a profile.share"
    path.write_text(text)
    with path.open("rb") as binary, path.open(encoding="utf-8") as opened:
        for given in (text, str(path), path, path.as_uri(), f"file:{path}", io.StringIO(text), binary, opened):
            profile = open_profile(given)
            assert profile.credentials == credentials
            assert profile.endpoint == "https://localhost/delta-sharing"
    assert open_profile(None, {"LAKEPORT_PROFILE": path.as_uri()}).credentials == credentials


def test_a_profile_of_a_version_to_come_asks_for_an_upgrade(tmp_path: Path) -> None:
    path = tmp_path / "new.share"
    path.write_text(json.dumps({"shareCredentialsVersion": 100, "endpoint": ENDPOINT, "bearerToken": "t"}))
    for given in (path, path.as_uri(), io.BytesIO(path.read_bytes())):
        with pytest.raises(ValueError, match=r"shareCredentialsVersion 100.*upgrade"):
            open_profile(given)


@EACH_FORMAT
def test_a_table_that_needs_a_newer_reader_is_refused(form: Format) -> None:
    with providing(Shared(schema(a="long"), (), (), form, reader_version=100)) as provider:
        for name in ("snapshot", "schema", "version"):
            with pytest.raises(UnsupportedFeatureError, match="needs reader version 100"):
                getattr(provider.frame(), name)


@EACH_FORMAT
def test_protocol_and_metadata_are_those_that_the_server_tells(form: Format) -> None:
    shared = Shared(schema(a="long", b="string"), (), ["b"], form, version=7, configuration={"some.key": "x"})
    with providing(shared) as provider:
        definition = provider.frame().definition
        assert provider.frame().version == definition.version == 7
        assert definition.protocol.min_reader_version == 1
        assert (definition.metadata.id, definition.metadata.partition_columns) == ("some-table", ("b",))
        assert definition.metadata.configuration["some.key"] == "x"
        assert definition.metadata.schema_string == shared.schema


# test_rest_client.py and test_delta_sharing.py: tables on a server of ours


@pytest.fixture(scope="module", params=FORMATS)
def client(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[SharingServer]:
    folder = tmp_path_factory.mktemp("upstream")
    grow(str(folder / "grown"), [])
    grow(str(folder / "parted"), ["p"])
    people = pa.table({"name": ["1", "2"], "birthday": [date(2020, 1, 1), date(2020, 2, 2)]})
    tables.create(str(folder / "people"), people, partition_by=["birthday"])
    places = {name: folder / name for name in ("grown", "parted", "people")}
    content = sharing({f"a.b.{name}": place for name, place in places.items()}, history_shared=True)
    with running(content) as started, server_at(started.endpoint, formats=(request.param,)) as opened:
        yield opened


def grow(path: str, partition_by: list[str]) -> None:
    """Rows; a column more, and rows with it; a change; two columns more, and rows with some of them; fewer rows."""
    first = pa.table({"p": ["x", "y", None], "c1": pa.array([1, 2, 3], pa.int32())})
    tables.create(path, first, partition_by=partition_by, properties=FEED)
    tables.add_columns(path, {"c2": "integer"})
    tables.append(path, [{"p": "x", "c1": 4, "c2": 40}])
    tables.update(path, {"c2": "5"}, "c1 = 1")
    tables.add_columns(path, {"c3": "float", "c4": "float"})
    tables.append(path, [{"p": "y", "c1": 5, "c2": None, "c3": 0.5, "c4": None}, {"p": None, "c1": 6, "c3": 0.25}])
    tables.delete(path, "c1 = 2 OR c1 = 6")
    tables.update(path, {"c3": "0.0"}, "c1 = 3")


@pytest.mark.parametrize("name", ["grown", "parted"])
def test_columns_that_were_added_are_null_in_older_rows(client: SharingServer, name: str) -> None:
    def rows(frame: Frame) -> list[tuple[Any, ...]]:
        return sorted((tuple(row.values()) for row in frame.to_arrow().to_pylist()), key=lambda row: row[1])

    frame = frame_of(client, f"a.b.{name}")
    assert rows(frame.at(version=0)) == [("x", 1), ("y", 2), (None, 3)]
    assert rows(frame.at(version=2)) == [("x", 1, None), ("y", 2, None), (None, 3, None), ("x", 4, 40)]
    assert rows(frame) == [
        ("x", 1, 5, None, None),
        (None, 3, None, 0.0, None),
        ("x", 4, 40, None, None),
        ("y", 5, None, 0.5, None),
    ]


@pytest.mark.parametrize("name", ["grown", "parted"])
def test_changes_from_before_a_column_was_added_have_it_as_null(client: SharingServer, name: str) -> None:
    found = frame_of(client, f"a.b.{name}").changes(0).to_arrow().drop(["_commit_timestamp"])
    assert found.column_names == ["p", "c1", "c2", "c3", "c4", *COMMIT_COLUMNS[:2]]
    rows = sorted((tuple(row.values()) for row in found.to_pylist()), key=lambda row: (row[6], row[5], row[1]))
    assert rows == [
        ("x", 1, None, None, None, "insert", 0),
        ("y", 2, None, None, None, "insert", 0),
        (None, 3, None, None, None, "insert", 0),
        ("x", 4, 40, None, None, "insert", 2),
        ("x", 1, 5, None, None, "update_postimage", 3),
        ("x", 1, None, None, None, "update_preimage", 3),
        ("y", 5, None, 0.5, None, "insert", 5),
        (None, 6, None, 0.25, None, "insert", 5),
        ("y", 2, None, None, None, "delete", 6),
        (None, 6, None, 0.25, None, "delete", 6),
        (None, 3, None, 0.0, None, "update_postimage", 7),
        (None, 3, None, None, None, "update_preimage", 7),
    ]


@pytest.mark.parametrize("limit", range(5))
def test_a_limit_is_never_exceeded_nor_missed(client: SharingServer, limit: int) -> None:
    frame = frame_of(client, "a.b.people").limit(limit)
    assert frame.to_arrow().num_rows == frame.count() == len(frame.to_pandas()) == min(limit, 2)
    assert frame.to_arrow().column_names == ["name", "birthday"]


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        ("birthday = DATE '2020-02-02'", ["2"]),
        ("birthday = DATE '2020-01-01'", ["1"]),
        ("birthday = DATE '2022-02-02'", []),
        ("birthday > DATE '2019-01-01'", ["1", "2"]),
        ("NOT birthday IS NULL AND birthday > DATE '2020-01-01'", ["2"]),
    ],
)
def test_a_filter_on_a_partition_asks_for_its_files_only(
    client: SharingServer, condition: str, names: list[str]
) -> None:
    frame = frame_of(client, "a.b.people").where(condition)
    assert sorted(frame.to_arrow().column("name").to_pylist()) == names
    assert len(frame.files()) == len(names)


def test_every_form_of_a_shared_table_has_the_same_rows(client: SharingServer) -> None:
    frame = frame_of(client, "a.b.grown").where("c1 > 1")
    table = frame.to_arrow()
    assert pa.Table.from_batches(frame.to_batches(), table.schema).equals(table)
    assert frame.to_reader().read_all().equals(table)
    assert frame.to_pandas().equals(table.to_pandas())
    assert texts_of(frame.to_polars().to_arrow().cast(table.schema)) == texts_of(table)


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (lambda frame: frame.at(timestamp="2000-01-01T00:00:00Z").to_arrow(), "is earlier than the earliest commit"),
        (lambda frame: frame.at(version=99).to_arrow(), "has no version 99"),
        (
            lambda frame: frame.changes(start_timestamp="2100-01-01T00:00:00Z").to_arrow(),
            "is later than the latest commit",
        ),
        (lambda frame: frame.changes(99).to_arrow(), "version 99, is later than the latest"),
    ],
    ids=["a time too early", "a version to come", "changes to come", "changes of a version to come"],
)
def test_a_version_that_there_is_not_is_an_error(client: SharingServer, ask: Any, reason: str) -> None:
    with pytest.raises(SharingError, match=reason):
        ask(frame_of(client, "a.b.grown"))


def test_changes_of_a_table_without_a_feed_are_an_error(client: SharingServer) -> None:
    with pytest.raises(SharingError, match="the change data feed is not enabled"):
        frame_of(client, "a.b.people").changes(0).to_arrow()


def test_versions_that_are_not_shared_are_an_error(tmp_path: Path) -> None:
    with sharing_tables(tmp_path, history_shared=False) as shared:
        frame = lakeport.scan(shared.target("sales.eu.orders"))
        for old in (frame.at(version=0), frame.at(timestamp=int(time.time() * 1000))):
            with pytest.raises(SharingError, match=r"(?i)histor|version"):
                old.to_arrow()
        assert frame.count() == 4


def test_times_and_versions_are_not_given_together(client: SharingServer) -> None:
    frame = frame_of(client, "a.b.grown")
    with pytest.raises(ValueError, match="either a version or a timestamp"):
        frame.at(version=1, timestamp="2026-01-01")
    with pytest.raises(ValueError, match="is not a time"):
        frame.at(timestamp="random_timestamp")


def test_moments_without_a_zone_reach_back_before_the_calendar_of_today(tmp_path: Path) -> None:
    moments = [datetime(2024, 12, 10, 13, 17, 40, 123456), datetime(1000, 1, 1)]
    tables.create(str(tmp_path / "ntz"), pa.table({"time": pa.array(moments, pa.timestamp("us"))}), properties=FEED)
    with (
        running(sharing({"a.b.ntz": tmp_path / "ntz"}, history_shared=True)) as started,
        server_at(started.endpoint) as client,
    ):
        found = frame_of(client, "a.b.ntz").to_arrow()
        assert found.schema.field("time").type == pa.timestamp("us")
        assert found.column("time").to_pylist() == moments
        assert frame_of(client, "a.b.ntz").changes(0).to_arrow().column("time").to_pylist() == moments


@pytest.mark.parametrize("text", ["", "#", "foo", "foo#", "foo#share", "foo#share.schema", "foo#share.schema."])
def test_what_names_no_table_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a shared table"):
        parse_table_url(text)


def test_the_profile_before_a_table_may_be_any_path_or_the_url_of_a_file(tmp_path: Path) -> None:
    for profile in ("profile", "foo#bar", r"C:\profiles\mine.share", "file:///profiles/mine.share"):
        url = parse_table_url(f"{profile}#share.schema.table")
        assert (url.profile, str(url.name)) == (profile, "share.schema.table")
        assert is_table_url(f"{profile}#share.schema.table")
    with sharing_tables(tmp_path) as shared:
        assert lakeport.scan(f"{shared.profile.as_uri()}#sales.eu.orders").count() == 4
