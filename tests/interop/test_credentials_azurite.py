"""Temporary credentials for a container on Azurite.

Azurite knows no directories: it refuses their signatures. And it gives keys for user delegation, but does not know how
the newest libraries sign with them. So whole containers are tried for real with the account's key; signatures by user
delegation are worked out a second time, with the key that Azurite gives.
https://learn.microsoft.com/rest/api/storageservices/create-user-delegation-sas
"""

import base64
import hashlib
import hmac
import ipaddress
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import obstore
import pytest
from azure.core.credentials import AccessToken
from azure.storage.blob import BlobServiceClient
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from obstore.exceptions import BaseError
from obstore.store import ObjectStore, from_url

import lakeport
from lakeport import tables
from lakeport.server.catalog.model import Table
from lakeport.server.credentials import CredentialVendor
from tests.interop.buckets import options
from tests.interop.servers import AZURE_ACCOUNT, NAME, Bucket, azure_container, free_port, program, running
from tests.server.endpoints import Answer, Received, as_json, endpoint

OBJECT, TENANT = "11059fcc-5514-4800-b5f8-49808b9cfab6", "ab1f708d-50f6-404c-a006-d71b2ac7a606"


def table(location: str) -> Table:
    modes = ("url", "dir")
    return Table(id="1", share="s", schema="d", name="t", location=location, access_modes=modes, history_shared=True)


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    """A container that is one table."""
    with azure_container(tmp_path_factory.mktemp("azurite")) as bucket:
        tables.create(bucket.url, {"id": [1, 2]}, storage_options=options(bucket))
        yield bucket


def signed(container: Bucket, seconds: int = 3600) -> dict[str, Any]:
    """Options with nothing but the credentials."""
    given = CredentialVendor({}, options(container), seconds).credentials(table(container.url), None)
    assert given.azure_user_delegation_sas is not None
    own = {name: value for name, value in options(container).items() if name != "account_key"}
    return own | {"sas_key": given.azure_user_delegation_sas.sas_token}


def opened(container: Bucket, seconds: int = 3600) -> ObjectStore:
    config = signed(container, seconds)
    del config["allow_http"]
    return from_url(container.url, **config, client_options={"allow_http": True})


def test_the_table_is_read_with_nothing_but_the_credentials(container: Bucket) -> None:
    found = lakeport.scan(container.url, storage_options=signed(container))
    assert sorted(found.to_arrow()["id"].to_pylist()) == [1, 2]


REFUSED: dict[str, Callable[[ObjectStore], object]] = {
    "writing": lambda store: obstore.put(store, "new", b"x"),
    "overwriting": lambda store: obstore.put(store, "_delta_log/00000000000000000000.json", b"x"),
    "deleting": lambda store: obstore.delete(store, "_delta_log/00000000000000000000.json"),
}


@pytest.mark.parametrize("attempt", REFUSED)
def test_everything_but_reading_is_refused(container: Bucket, attempt: str) -> None:
    with pytest.raises(BaseError, match="not authorized to perform this operation"):
        REFUSED[attempt](opened(container))


def test_credentials_that_have_expired_open_nothing(container: Bucket) -> None:
    store = opened(container, seconds=2)
    assert obstore.head(store, "_delta_log/00000000000000000000.json")["size"] > 0
    time.sleep(2.5)
    with pytest.raises(BaseError, match="403"):
        obstore.head(store, "_delta_log/00000000000000000000.json")


@dataclass(frozen=True)
class Entra:
    """A directory of identities, and Azurite that believes it, both with TLS."""

    url: str
    storage: str


def token() -> str:
    now = int(time.time())
    claims = {"aud": "https://storage.azure.com", "iss": f"https://sts.windows.net/{TENANT}/", "iat": now}
    claims |= {"nbf": now - 60, "exp": now + 3600, "oid": OBJECT, "tid": TENANT}
    parts = [{"alg": "none", "typ": "JWT"}, claims, {}]
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)


def answer(request: Received) -> Answer:
    if request.path.endswith("/openid-configuration"):
        root = f"https://{request.headers['Host']}/{TENANT}"
        names = ["token_endpoint", "authorization_endpoint", "device_authorization_endpoint"]
        return as_json(dict.fromkeys(names, f"{root}/token") | {"issuer": f"{root}/v2.0"})
    known = {"client_id": "the server", "client_secret": "secret", "grant_type": "client_credentials"}
    assert known.items() <= request.form.items()
    return as_json({"access_token": token(), "expires_in": 3600, "token_type": "Bearer"})


def certificate(folder: Path) -> tuple[str, str]:
    """Files of a certificate for the loopback address, signed by itself, and of its key."""
    key, day = ec.generate_private_key(ec.SECP256R1()), timedelta(days=1)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, datetime.now(UTC) - day, datetime.now(UTC) + day)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    own = builder.add_extension(address, False).add_extension(x509.BasicConstraints(True, None), True)
    (folder / "cert.pem").write_bytes(own.sign(key, SHA256()).public_bytes(Encoding.PEM))
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return str(folder / "cert.pem"), str(folder / "key.pem")


@contextmanager
def azurite_with_identities(folder: Path, files: tuple[str, str]) -> Iterator[str]:
    port = free_port()
    command = [program("node_modules/.bin/azurite-blob"), "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    command += ["--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
    command += ["--oauth", "basic", "--cert", files[0], "--key", files[1]]
    with running(command, port, folder / "server.log"):
        yield f"https://127.0.0.1:{port}/{AZURE_ACCOUNT}"


@pytest.fixture
def entra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Entra]:
    files = certificate(tmp_path)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", files[0])
    with azurite_with_identities(tmp_path, files) as storage, endpoint(answer, files) as identities:
        yield Entra(identities.url, storage)


class OwnToken:
    def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        return AccessToken(token(), int(time.time()) + 3600)


def delegation_key(entra: Entra, start: str, expiry: str) -> bytes:
    """The key that Azurite gives to the identity for this time: always the same."""
    with BlobServiceClient(entra.storage, credential=OwnToken()) as client:
        key = client.get_user_delegation_key(datetime.fromisoformat(start), datetime.fromisoformat(expiry))
    assert isinstance(key.value, str)
    return base64.b64decode(key.value)


@pytest.mark.parametrize(
    ("path", "resource", "depth"),
    [("/data/t1", f"/blob/{AZURE_ACCOUNT}/{NAME}/data/t1", "2"), ("", f"/blob/{AZURE_ACCOUNT}/{NAME}", None)],
)
def test_an_application_signs_with_a_key_that_the_storage_gives_it(
    entra: Entra, path: str, resource: str, depth: str | None
) -> None:
    application = {"tenantId": TENANT, "clientId": "the server", "clientSecret": "secret", "authorityHost": entra.url}
    storage = {"endpoint": entra.storage, "account_name": AZURE_ACCOUNT}
    given = CredentialVendor({"azure": application}, storage).credentials(table(f"az://{NAME}{path}"), None)
    assert given.azure_user_delegation_sas is not None
    parts = {name: value for name, (value,) in parse_qs(given.azure_user_delegation_sas.sas_token).items()}
    assert (parts["skoid"], parts["sktid"], parts["sp"], parts["spr"]) == (OBJECT, TENANT, "rl", "https")
    assert (parts["sr"], parts.get("sdd")) == ("d" if path else "c", depth)
    assert datetime.fromisoformat(parts["se"]).timestamp() * 1000 == given.expiration_time
    key = [parts[name] for name in ("skoid", "sktid", "skt", "ske", "sks", "skv")]
    text = [parts["sp"], "", parts["se"], resource, *key, *[""] * 6, parts["spr"], parts["sv"], parts["sr"], *[""] * 9]
    digest = hmac.digest(delegation_key(entra, parts["skt"], parts["ske"]), "\n".join(text).encode(), hashlib.sha256)
    assert parts["sig"] == base64.b64encode(digest).decode()
