"""What is asked of Google, as its own library sends it to a local server."""

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from lakeport.locations import parse_location
from lakeport.server.credentials.cloud_vendor import GcsOptions, Grant, Granted
from lakeport.server.credentials.gcs import GcsVendor, access_boundary
from lakeport.sharing.models import GcpOauthToken
from tests.server.endpoints import Answer, Endpoint, Received, as_json, endpoint

PLACE = parse_location("gs://bucket/data/t1")
NOW = 1_800_000_000


@pytest.fixture(scope="module")
def private_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption()).decode()


def answer(request: Received) -> Answer:
    if request.path == "/oauth":
        return as_json({"access_token": "of the server", "expires_in": 3599, "token_type": "Bearer"})
    return as_json({"access_token": "narrow", "token_type": "Bearer", "expires_in": 1234})


@pytest.fixture
def google() -> Iterator[Endpoint]:
    with endpoint(answer) as place:
        yield place


def service_account(private_key: str, google: Endpoint) -> str:
    account = {"type": "service_account", "client_email": "server@project.example", "private_key": private_key}
    return json.dumps(account | {"private_key_id": "1", "token_uri": f"{google.url}/oauth"})


def vend(google: Endpoint, storage: dict[str, Any]) -> Granted:
    grant = Grant(place=PLACE, storage=storage, seconds=3600, now=NOW, name="lakeport")
    return GcsVendor(GcsOptions(sts_endpoint=f"{google.url}/v1/token")).vend(grant)


def test_the_servers_token_is_exchanged_for_one_with_the_boundary(google: Endpoint, private_key: str) -> None:
    granted = vend(google, {"service_account_key": service_account(private_key, google)})
    assert granted == Granted(GcpOauthToken(oauth_token="narrow"), NOW + 1234)
    assert [request.path for request in google.received] == ["/oauth", "/v1/token"]
    form = google.received[1].form
    assert json.loads(unquote(form.pop("options"))) == access_boundary(PLACE)
    assert form == {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": "of the server",
        "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
    }


def test_a_service_account_may_be_a_file(google: Endpoint, private_key: str, tmp_path: Any) -> None:
    (tmp_path / "key.json").write_text(service_account(private_key, google))
    assert vend(google, {"google_service_account": str(tmp_path / "key.json")}).expires == NOW + 1234


def test_a_token_that_does_not_say_when_it_expires_expires_with_that_of_the_server(private_key: str) -> None:
    def silent(request: Received) -> Answer:
        return answer(request) if request.path == "/oauth" else as_json({"access_token": "narrow"})

    with endpoint(silent) as google:
        granted = vend(google, {"google_service_account_key": service_account(private_key, google)})
    assert granted.expires == pytest.approx(time.time() + 3599, abs=30)


def test_the_boundary_reads_and_lists_one_prefix_and_no_more() -> None:
    assert access_boundary(PLACE) == {
        "accessBoundary": {
            "accessBoundaryRules": [
                {
                    "availableResource": "//storage.googleapis.com/projects/_/buckets/bucket",
                    "availablePermissions": ["inRole:roles/storage.objectViewer"],
                    "availabilityCondition": {
                        "expression": "resource.name.startsWith('projects/_/buckets/bucket/objects/data/t1/') || "
                        "api.getAttribute('storage.googleapis.com/objectListPrefix', '').startsWith('data/t1/')"
                    },
                }
            ]
        }
    }


def test_a_name_cannot_end_the_text_of_the_condition() -> None:
    boundary = access_boundary(parse_location(r"gs://bucket/a') || true || ('\ "))
    (rule,) = boundary["accessBoundary"]["accessBoundaryRules"]
    listed = rule["availabilityCondition"]["expression"].rpartition(".startsWith(")[2]
    assert listed == r"'a\') || true || (\'\\ /')"


def test_a_whole_bucket_needs_no_condition() -> None:
    (rule,) = access_boundary(parse_location("gs://bucket"))["accessBoundary"]["accessBoundaryRules"]
    assert "availabilityCondition" not in rule
