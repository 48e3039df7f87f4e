"""Signatures for Azure's directories, worked out a second time as its documentation tells.

https://learn.microsoft.com/rest/api/storageservices/create-service-sas
"""

import base64
import hashlib
import hmac
from urllib.parse import parse_qs

import pytest

from lakeport.errors import CatalogError, SharingError
from lakeport.locations import parse_location
from lakeport.server.credentials.azure import AzureVendor
from lakeport.server.credentials.cloud_vendor import AzureOptions, Grant
from lakeport.sharing.models import AzureUserDelegationSas

KEY = base64.b64encode(b"the key of the account").decode()
NOW = 1_800_000_000.25


def vend(location: str, options: AzureOptions | None = None, seconds: int = 3600, **storage: str) -> dict[str, str]:
    """The parts of the signature; it expires when it is said to."""
    place = parse_location(location, "acct")
    grant = Grant(place=place, storage=storage or {"account_key": KEY}, seconds=seconds, now=NOW, name="lakeport")
    granted = AzureVendor(options or AzureOptions()).vend(grant)
    assert isinstance(granted.key, AzureUserDelegationSas)
    assert granted.expires == int(NOW) + seconds
    return {name: value for name, (value,) in parse_qs(granted.key.sas_token, strict_parsing=True).items()}


def signature(resource: str, parts: dict[str, str]) -> str:
    text = [parts["sp"], "", parts["se"], resource, "", "", parts["spr"], parts["sv"], parts["sr"], *[""] * 7]
    return base64.b64encode(hmac.digest(base64.b64decode(KEY), "\n".join(text).encode(), hashlib.sha256)).decode()


def test_a_directory_is_signed_with_its_depth_to_be_read_and_listed_over_tls() -> None:
    parts = vend("abfss://c@acct.dfs.core.windows.net/data/t 1")
    assert (parts["sr"], parts["sdd"], parts["sp"], parts["spr"]) == ("d", "2", "rl", "https")
    assert parts["se"] == "2027-01-15T09:00:00Z"
    assert parts["sig"] == signature("/blob/acct/c/data/t 1", parts)


def test_a_whole_container_is_signed_as_such() -> None:
    parts = vend("az://c")
    assert (parts["sr"], parts["sp"]) == ("c", "rl")
    assert "sdd" not in parts
    assert parts["sig"] == signature("/blob/acct/c", parts)


def test_only_an_endpoint_without_tls_makes_a_signature_for_both() -> None:
    parts = vend("az://c/t", endpoint="http://127.0.0.1:10000/acct", account_key=KEY)
    assert parts["spr"] == "https,http"


def test_an_account_without_directories_is_refused_but_for_whole_containers() -> None:
    flat = AzureOptions(hierarchical_namespace=False)
    with pytest.raises(SharingError, match="no hierarchical namespace") as refused:
        vend("az://c/t", flat)
    assert (refused.value.status, refused.value.code) == (400, "UNSUPPORTED_OPERATION")
    assert vend("az://c", flat)["sr"] == "c"


def test_a_location_that_names_no_account_needs_one_in_the_options() -> None:
    grant = Grant(place=parse_location("az://c/t"), storage={"account_key": KEY}, seconds=1, now=NOW, name="lakeport")
    with pytest.raises(CatalogError, match="account_name"):
        AzureVendor(AzureOptions()).vend(grant)
