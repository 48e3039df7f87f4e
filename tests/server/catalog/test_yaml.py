"""A catalog in a YAML file."""

import hashlib
import os
from pathlib import Path

import pytest

from lakeport.errors import CatalogError
from lakeport.server.catalog.index import Catalog
from lakeport.server.catalog.model import CatalogContent, normalize_location
from lakeport.server.catalog.yaml_source import YamlSource


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "server.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def load(tmp_path: Path, text: str) -> CatalogContent:
    """A catalog for nobody, unless the text says for whom."""
    access = ("recipients:", "authorization:", "anonymous:")
    return YamlSource(written(tmp_path, text + "\nrecipients: []" * (not any(key in text for key in access)))).load()


def share(*tables: str, name: str = "sales", schema: str = "eu") -> str:
    rows = "".join(f"\n    - {{{table}}}" for table in tables)
    return f"shares:\n- name: {name}\n  schemas:\n  - name: {schema}\n    tables: {'[]' if not tables else ''}{rows}\n"


ORDERS = "name: Orders, location: /data/orders"


def test_tables_have_what_the_file_says(tmp_path: Path) -> None:
    table = "name: t, location: /t, id: '7', historyShared: true, startVersion: 4, accessModes: [dir, url]"
    table += ", auxiliaryLocations: [s3a://b/x], storage: {region: eu}"
    [found] = load(tmp_path, share(table)).tables
    assert (found.share, found.schema, found.name, found.location) == ("sales", "eu", "t", "/t")
    assert (found.id, found.history_shared, found.start_version) == ("7", True, 4)
    assert (found.access_modes, found.auxiliary_locations) == (("dir", "url"), ("s3://b/x",))
    assert found.storage == {"region": "eu"}


def test_shares_have_what_the_file_says(tmp_path: Path) -> None:
    text = "shares: [{name: a, id: i, displayName: A!, comment: c, properties: {p: 1}}, {name: b}]"
    first, second = load(tmp_path, text).shares
    assert (first.id, first.display_name, first.comment, first.properties) == ("i", "A!", "c", {"p": "1"})
    assert (second.display_name, second.comment, second.properties) == (None, None, {})


def test_ids_that_are_not_given_follow_from_the_names_alone(tmp_path: Path) -> None:
    [first] = load(tmp_path, share(ORDERS)).tables
    [second] = load(tmp_path, share("name: ORDERS, location: /elsewhere, id: ''", name="Sales")).tables
    [other] = load(tmp_path, share("name: orders2, location: /data/orders")).tables
    assert first.id == second.id != other.id


def test_names_that_look_like_other_things_are_names(tmp_path: Path) -> None:
    content = load(tmp_path, share("name: no, location: /t", "name: 1_0, location: /u", name="2024", schema="0x1F"))
    assert content.schemas == (("2024", "0x1F"),)
    assert [table.name for table in content.tables] == ["no", "1_0"]


def test_a_schema_may_be_empty(tmp_path: Path) -> None:
    content = load(tmp_path, share())
    assert (content.schemas, content.tables) == ((("sales", "eu"),), ())


def test_everyone_may_read_only_if_the_file_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(CatalogError, match="nobody may read the shares"):
        YamlSource(written(tmp_path, share(ORDERS))).load()
    content = load(tmp_path, share(ORDERS) + "anonymous: true")
    assert content.anonymous
    assert "everyone may read every share without a token" in caplog.text


@pytest.mark.parametrize("more", ["recipients: []", "authorization: {bearerToken: x}"])
def test_everyone_and_some_exclude_each_other(tmp_path: Path, more: str) -> None:
    with pytest.raises(CatalogError, match="anonymous: true conflicts with"):
        YamlSource(written(tmp_path, share(ORDERS) + f"anonymous: true\n{more}")).load()


@pytest.mark.parametrize("empty", ["recipients: []", "recipients:"])
def test_an_empty_list_of_recipients_does_not_mean_everybody(tmp_path: Path, empty: str) -> None:
    content = load(tmp_path, share(ORDERS) + empty)
    assert not content.anonymous
    assert content.recipients == ()


def test_the_reference_servers_token_is_a_recipient_of_everything(tmp_path: Path) -> None:
    content = load(tmp_path, share(ORDERS) + "authorization: {bearerToken: 12345}")
    catalog = Catalog(content)
    found = catalog.authenticate("12345", 0)
    assert found is not None
    assert (found.name, found.grants, catalog.anonymous) == ("bearerToken", ("*",), None)
    assert catalog.authenticate("1234", 0) is None


def test_recipients_have_tokens_addresses_and_grants(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"hers").hexdigest()
    text = f"""
recipients:
- {{name: ann, bearerToken: plain, ipAllowList: [10.0.0.0/8, '::1'], grants: [SALES.eu]}}
- name: bob
  tokens: [{{sha256: {digest.upper()}, expires: 2026-01-31T12:00:00Z}}]
"""
    ann, bob = load(tmp_path, share(ORDERS) + text).recipients
    assert (ann.ip_allow_list, ann.grants) == (("10.0.0.0/8", "::1"), ("SALES.eu",))
    assert ann.tokens[0].digest == hashlib.sha256(b"plain").hexdigest()
    assert (bob.tokens[0].digest, bob.tokens[0].expires, bob.grants) == (digest, 1769860800000, ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (share(ORDERS, "name: orders, location: /x"), "more than one table called 'sales.eu.orders'"),
        ("shares: [{name: a}, {name: A}]", "more than one share called 'A'"),
        ("shares: [{name: a, schemas: [{name: s}, {name: S}]}]", "more than one schema called 'a.S'"),
        (share("name: a, location: /a, id: x", "name: b, location: /b, id: x"), "has the same id"),
        ("shares: [{name: a b}]", "cannot contain a space"),
        (share(ORDERS, schema="a.b"), "cannot contain a period"),
        (share("name: a/b, location: /x"), "cannot contain a slash"),
        (share("name: t, location: ''"), "needs a location"),
        (share("name: t, location: /t, startVersion: -1"), "start version"),
        (share("name: t, location: /t, accessModes: [ftp]"), "accessModes"),
        (share("name: t, location: /t, accessModes: []"), "access modes"),
        (share("name: t, location: ftp://x/y"), "has an unknown scheme"),
        ("shares: [{name: a.b}, {name: a, schemas: [{name: b}]}]", "more than one share, schema or table"),
        ("recipients: [{name: a}, {name: A}]", "more than one recipient"),
        ("recipients: [{name: ' '}]", "printable"),
        ("recipients: [{name: a, bearerToken: x}, {name: b, bearerToken: x}]", "is used twice"),
        ("recipients: [{name: a, bearerToken: ''}]", "token of 'a' is empty"),
        ("recipients: [{name: a, tokens: [{sha256: abc}]}]", "64 hexadecimal digits"),
        (f"recipients: [{{name: a, tokens: [{{sha256: {'0' * 64}, expires: soon}}]}}]", "not a timestamp"),
        ("recipients: [{name: a, ipAllowList: [10.0.0]}]", "'10.0.0' is neither an address nor a network"),
        ("recipients: [{name: a, ipAllowList: }]", "recipients[0].ipAllowList is empty: set a value, or remove"),
        ("recipients: [{name: a, ipAllowList: []}]", "recipients[0].ipAllowList is empty"),
        ("recipients: [{name: a, ipAllowList: [~]}]", "recipients[0].ipAllowList[0] is empty"),
        ("recipients: [{name: a, ipAllowList: ['']}]", "'' is neither an address nor a network"),
        (f"recipients: [{{name: a, tokens: [{{sha256: {'0' * 64}, expires: }}]}}]", "tokens[0].expires is empty"),
        (share("name: t, location: /t, startVersion: "), "tables[0].startVersion is empty"),
        ("recipients: [{name: a, grants: [nothing]}]", "there is no such share, schema or table"),
        (f"shares: [{{name: a, displayName: {'x' * 256}}}]", "longer than 255"),
        (f"shares: [{{name: a, properties: {{k: {'x' * 1001}}}}}]", "longer than 1000"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CatalogError) as caught:
        load(tmp_path, text)
    assert message in str(caught.value)
    assert "server.yaml" in str(caught.value)


def test_the_generation_changes_with_the_file_however_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "server.yaml"
    path.write_text("shares: []")
    source = YamlSource(path)
    first = source.generation()
    assert source.generation() == first
    kept = path.stat()
    (tmp_path / "new").write_text("shares: {}")
    os.utime(tmp_path / "new", ns=(kept.st_atime_ns, kept.st_mtime_ns))
    os.replace(tmp_path / "new", path)  # same size, same time, another file
    second = [source.generation() for _ in range(2)]
    path.write_text("shares: [] # longer")
    third = [source.generation() for _ in range(2)]
    assert (second[0], third[0]) == (None, None)  # it may be half written
    assert len({first, second[1], third[1]}) == 3
    assert source.signing_key() is None


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("/data/orders/", "/data/orders"),
        ("file:/data/a%20b", "/data/a b"),
        ("file:///data/orders", "/data/orders"),
        ("file://localhost/data/orders/", "/data/orders"),
        ("s3a://bucket/a/b/", "s3://bucket/a/b"),
        ("S3N://bucket/a", "s3://bucket/a"),
        ("s3://bucket", "s3://bucket"),
        ("gs://bucket/a b", "gs://bucket/a b"),
        ("wasbs://c@acc.blob.core.windows.net/a/b", "abfss://c@acc.dfs.core.windows.net/a/b"),
        ("wasb://c@acc.blob.core.windows.net/a", "abfss://c@acc.dfs.core.windows.net/a"),
        ("abfs://c@acc.dfs.core.windows.net/a", "abfss://c@acc.dfs.core.windows.net/a"),
        ("abfss://w@onelake.dfs.fabric.microsoft.com/a", "abfss://w@onelake.dfs.fabric.microsoft.com/a"),
        ("az://container/a", "az://container/a"),
    ],
)
def test_locations_are_those_that_the_storage_takes(text: str, location: str) -> None:
    assert normalize_location(text) == location


def test_a_relative_location_is_below_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert normalize_location("tables/../orders") == f"{tmp_path}/orders"


@pytest.mark.parametrize("text", ["", " ", "s3://", "s3:bucket", "https://host/x", "abfss://container/x"])
def test_a_location_where_no_table_can_be_is_refused(text: str) -> None:
    with pytest.raises(CatalogError):
        normalize_location(text)
