"""The log's URIs as plain paths."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport.errors import CorruptTableError
from lakeport.kernel.paths import encode_path, is_within, resolve_path, within_reach


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("part-0.parquet", "/table/part-0.parquet"),
        ("day=2026-01-01/part-0.parquet", "/table/day=2026-01-01/part-0.parquet"),
        ("a%20b.parquet", "/table/a b.parquet"),
        ("a+b.parquet", "/table/a+b.parquet"),
        ("a%253Ab/x", "/table/a%3Ab/x"),
        ("a:b.parquet", "/table/a:b.parquet"),
        ("x=10:30/y", "/table/x=10:30/y"),
        ("grün.parquet", "/table/grün.parquet"),
        ("gr%C3%BCn.parquet", "/table/grün.parquet"),
        ("100%.parquet", "/table/100%.parquet"),
        ("%zz%20", "/table/%zz "),
        ("%FF%20", "/table/%FF%20"),
        ("file:/other/x%20y", "/other/x y"),
        ("file:///other/x", "/other/x"),
        ("file://localhost/other/x", "/other/x"),
        ("FILE:/other/x", "/other/x"),
        ("/other/x%20y", "/other/x y"),
        ("s3://bucket/key%20x", "s3://bucket/key x"),
        ("abfss://box@account.dfs.core.windows.net/key", "abfss://box@account.dfs.core.windows.net/key"),
    ],
)
def test_a_uri_of_the_log_becomes_a_plain_path(uri: str, path: str) -> None:
    assert resolve_path("/table", uri) == path


@pytest.mark.parametrize("root", ["s3://bucket/table", "s3://bucket/table/"])
def test_relative_uris_are_below_the_root_and_slashes_do_not_double(root: str) -> None:
    assert resolve_path(root, "a/b") == "s3://bucket/table/a/b"


def test_an_absolute_path_without_a_scheme_is_in_the_storage_of_the_root() -> None:
    assert resolve_path("s3://bucket/table", "/other/x") == "s3://bucket/other/x"


def test_a_root_is_plain_text_and_is_not_decoded() -> None:
    assert resolve_path("/a%20b", "c%20d") == "/a%20b/c d"


@given(st.text(min_size=1).filter(lambda text: not text.startswith("/")))
def test_every_encoded_name_is_found_again(name: str) -> None:
    assert resolve_path("/table", quote(name)) == f"/table/{name}"


@given(st.text())
def test_any_text_is_a_path(uri: str) -> None:
    assert isinstance(resolve_path("/table", uri), str)


@given(st.text(min_size=1).filter(lambda text: not text.startswith("/") and ":/" not in text))
def test_what_is_written_is_found_again(name: str) -> None:
    assert resolve_path("/table", encode_path(name)) == f"/table/{name}"


@pytest.mark.parametrize(
    ("plain", "written"),
    [
        ("city=São Paulo/北京😀.parquet", "city=São%20Paulo/北京😀.parquet"),
        ("a%3Ab", "a%253Ab"),
        ("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", "!%22%23$%25&'()*+,-./:;%3C=%3E%3F@%5B%5C%5D%5E_%60%7B%7C%7D~"),
        ("a\u00a0b\u2003c\u3000d\u0085e\x7ff", "a%C2%A0b%E2%80%83c%E3%80%80d%C2%85e%7Ff"),
    ],
)
def test_paths_are_written_as_java_writes_them(plain: str, written: str) -> None:
    assert encode_path(plain) == written


@pytest.mark.parametrize(
    ("path", "root"),
    [
        ("/table/day=1/x", "/table"),
        ("/table/..x/y..", "/table"),
        ("/other/x", "/table"),
        ("s3://b/t/x", "s3://b/t"),
        ("s3a://other/x", "s3://b/t"),
        ("abfss://c@other.dfs.core.windows.net/x", "az://c/t"),
        ("https://host/other/x", "https://host/t"),
        ("delta-sharing:///t/id/7", "delta-sharing://log/0/t"),
    ],
)
def test_a_log_names_files_of_its_table_and_absolute_ones_in_the_same_storage(path: str, root: str) -> None:
    assert within_reach(path, root) == path


@pytest.mark.parametrize(
    ("path", "root"),
    [
        ("/table/../other/x", "/table"),
        ("/table/a/../../x", "/table"),
        ("/table/..", "/table"),
        ("/etc/x", "s3://b/t"),
        ("/etc/x", "delta-sharing://log/0/t"),
        ("s3://b/x", "/table"),
        ("http://169.254.169.254/x", "/table"),
        ("http://169.254.169.254/x", "https://host/t"),
        ("http://host/t/x", "https://host/t"),
        ("file://host/x", "/table"),
        ("memory:///x", "/table"),
        ("gs://b/x", "s3://b/t"),
    ],
)
def test_a_log_reaches_no_other_storage_and_does_not_climb(path: str, root: str) -> None:
    with pytest.raises(CorruptTableError, match="outside the table"):
        within_reach(path, root)


@pytest.mark.parametrize(
    ("path", "directory", "within"),
    [
        ("/t/x", "/t", True),
        ("/t", "/t/", True),
        ("/tx", "/t", False),
        ("/t/../x", "/t", False),
        ("s3a://b/t/x", "s3://b/t", True),
        ("abfs://c@a.dfs.core.windows.net/t/x", "abfss://c@a.dfs.core.windows.net/t", True),
        ("s3://b/t/../u", "s3a://b/t", False),
        ("/x", "/", True),
    ],
)
def test_what_is_within_a_directory(path: str, directory: str, within: bool) -> None:
    assert is_within(path, directory) is within
