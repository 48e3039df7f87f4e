from datetime import timedelta

import pytest
from obstore import sign
from obstore.store import MemoryStore

from lakeport.engine.object_store import ObjectFiles, open_store
from lakeport.errors import StorageError

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
