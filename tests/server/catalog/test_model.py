"""The values of a catalog."""

import pytest

from lakeport.server.catalog.model import Table


@pytest.mark.parametrize(
    ("own", "server", "expected"),
    [
        ({}, {"region": "eu"}, {"region": "eu"}),
        ({"region": "us"}, {"region": "eu", "endpoint": "e"}, {"region": "us", "endpoint": "e"}),
        ({"region": "us"}, {"AWS_REGION": "eu"}, {"region": "us"}),
        ({"azure_storage_account_key": "a"}, {"account_key": "b"}, {"azure_storage_account_key": "a"}),
    ],
)
def test_a_tables_options_come_before_the_servers_however_they_are_spelled(
    own: dict[str, str], server: dict[str, str], expected: dict[str, str]
) -> None:
    table = Table(id="1", share="s", schema="d", name="t", location="s3://b/t", storage=own)
    assert table.storage_options(server) == expected
