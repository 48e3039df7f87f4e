"""Real object stores and catalogs on the loopback interface, each alive for the length of a ``with`` block.

``scripts/peers.sh`` puts the programs into ``.peers``. Azurite and fake-gcs-server ignore the offset of a listing and
return the objects before it too: a reader that lists from an offset has to filter.
"""

import base64
import hashlib
import hmac
import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import quote

import boto3
import obstore
import pyspark
from obstore.store import ObjectStore, from_url

from tests.conftest import ROOT, missing

PEERS = ROOT / ".peers"
NAME = "lakeport"
START_SECONDS = 30

# Azurite's published development account: https://learn.microsoft.com/azure/storage/common/storage-use-azurite
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass(frozen=True)
class Bucket:
    """An empty bucket or container: ``obstore.store.from_url(bucket.url, **bucket.options)`` opens it."""

    url: str
    options: dict[str, Any] = field(repr=False)

    def store(self) -> ObjectStore:
        return from_url(self.url, **self.options)

    def put(self, path: str, data: bytes) -> None:
        """Place an object for a test to read."""
        obstore.put(self.store(), path, data)


@dataclass(frozen=True)
class FakeGcsBucket(Bucket):
    """A bucket on fake-gcs-server, which takes uploads by Google's JSON interface; obstore writes by the XML one."""

    endpoint: str

    def put(self, path: str, data: bytes) -> None:
        url = f"{self.endpoint}/upload/storage/v1/b/{NAME}/o?uploadType=media&name={quote(path, safe='')}"
        send(urllib.request.Request(url, data=data, headers={"Content-Type": "application/octet-stream"}))


@contextmanager
def s3_bucket(folder: Path) -> Iterator[Bucket]:
    """MinIO on a folder: S3 with a token service that holds sessions to their policies. A later
    server on the folder has the same objects."""
    (folder / "root" / NAME).mkdir(parents=True, exist_ok=True)
    access, secret = "lakeport-access", "lakeport-secret"
    port = free_port()
    command = ["env", f"MINIO_ROOT_USER={access}", f"MINIO_ROOT_PASSWORD={secret}", "MINIO_BROWSER=off"]
    command += ["MINIO_UPDATE=off", f"HOME={folder}", program("bin/minio"), "server", "--quiet"]
    command += ["--address", f"127.0.0.1:{port}", folder / "root"]
    with running(command, port, folder / "server.log"):
        yield Bucket(
            f"s3://{NAME}",
            {
                "endpoint": f"http://127.0.0.1:{port}",
                "region": "us-east-1",
                "access_key_id": access,
                "secret_access_key": secret,
                "client_options": {"allow_http": True},
            },
        )


def s3_client(bucket: Bucket) -> Any:
    """Amazon's own client, for what obstore has no call for."""
    return boto3.client(
        "s3",
        endpoint_url=bucket.options["endpoint"],
        region_name=bucket.options["region"],
        aws_access_key_id=bucket.options["access_key_id"],
        aws_secret_access_key=bucket.options["secret_access_key"],
    )


@contextmanager
def azure_container(folder: Path) -> Iterator[Bucket]:
    """Azurite's blob service, in memory."""
    port = free_port()
    command = [program("node_modules/.bin/azurite-blob"), "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    command += ["--inMemoryPersistence", "--silent", "--disableTelemetry"]
    with running(command, port, folder / "server.log"):
        endpoint = f"http://127.0.0.1:{port}/{AZURE_ACCOUNT}"
        create_azure_container(endpoint)
        yield Bucket(
            f"az://{NAME}",
            {
                "endpoint": endpoint,
                "account_name": AZURE_ACCOUNT,
                "account_key": AZURE_KEY,
                "client_options": {"allow_http": True},
            },
        )


def create_azure_container(endpoint: str) -> None:
    """Create Container, signed with the account's key (obstore has no call for it)."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2023-11-03"}
    # The account stands twice: once as such, once as the first segment of the emulator's path.
    resource = f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{NAME}\nrestype:container"
    text = "PUT" + "\n" * 12 + "".join(f"{name}:{value}\n" for name, value in headers.items()) + resource
    digest = hmac.digest(base64.b64decode(AZURE_KEY), text.encode(), hashlib.sha256)
    headers["Authorization"] = f"SharedKey {AZURE_ACCOUNT}:{base64.b64encode(digest).decode()}"
    send(urllib.request.Request(f"{endpoint}/{NAME}?restype=container", method="PUT", headers=headers))


@contextmanager
def gcs_bucket(folder: Path) -> Iterator[FakeGcsBucket]:
    """fake-gcs-server, in memory; through obstore it can be read, not written."""
    port = free_port()
    host = f"127.0.0.1:{port}"
    command = [program("bin/fake-gcs-server"), "-backend", "memory", "-scheme", "http", "-log-level", "warn"]
    command += ["-host", "127.0.0.1", "-port", str(port), "-public-host", host, "-external-url", f"http://{host}"]
    key = {"gcs_base_url": f"http://{host}", "disable_oauth": True}
    key |= dict.fromkeys(["client_email", "private_key", "private_key_id"], "")
    with running(command, port, folder / "server.log"):
        body = json.dumps({"name": NAME}).encode()
        headers = {"Content-Type": "application/json"}
        send(urllib.request.Request(f"http://{host}/storage/v1/b", data=body, headers=headers))
        options = {"service_account_key": json.dumps(key), "client_options": {"allow_http": True}}
        yield FakeGcsBucket(f"gs://{NAME}", options, f"http://{host}")


@contextmanager
def glue_catalog(folder: Path) -> Iterator[dict[str, str]]:
    """Moto's Glue, in memory, as properties of a catalog of pyiceberg's."""
    port = free_port()
    command = [program("moto/bin/moto_server"), "-H", "127.0.0.1", "-p", str(port)]
    with running(command, port, folder / "server.log"):
        yield {
            "name": "glue",
            "type": "glue",
            "glue.endpoint": f"http://127.0.0.1:{port}",
            "glue.region": "us-east-1",
            "glue.access-key-id": "lakeport-access",
            "glue.secret-access-key": "lakeport-secret",
        }


@contextmanager
def hive_catalog(folder: Path) -> Iterator[dict[str, str]]:
    """A metastore of Hive, from the jars that come with PySpark."""
    port = free_port()
    jars = Path(pyspark.__file__).with_name("jars")
    command = [
        "java",
        "-XX:TieredStopAtLevel=1",
        f"-Dderby.stream.error.file={folder / 'derby.log'}",
        "-cp",
        f"{jars}/*",
    ]
    command += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.lang", "java.net")]
    command += [str(Path(__file__).with_name("HiveServer.java")), str(folder), str(port)]
    with running(command, port, folder / "server.log", seconds=120):
        yield {"name": "hive", "type": "hive", "uri": f"thrift://127.0.0.1:{port}"}


def program(path: str) -> Path:
    """A program in ``.peers``, or a skip."""
    if not (PEERS / path).exists():
        missing(f"{path} is not in .peers: run scripts/peers.sh")
    return PEERS / path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@contextmanager
def running(command: list[Any], port: int, log: Path, seconds: float = START_SECONDS) -> Iterator[None]:
    """Run a server from the moment its port answers to the end of the block."""
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            if not answers(process, port, seconds):
                missing(f"{command[0]} did not start: {log.read_text()[-2000:]}")
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def answers(process: subprocess.Popen[bytes], port: int, seconds: float = START_SECONDS) -> bool:
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        except OSError:
            time.sleep(0.05)
    return False


def send(request: urllib.request.Request) -> None:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10):
        pass
