"""Convert object store errors to those of a `StorageClient`, with actionable messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from lakeport.engine.storage.throttling import is_throttled
from lakeport.errors import AccessDeniedError, MissingFileError, StorageError

_DENIED = re.compile(r"status code: 40[13]\b")
_TIMED_OUT = re.compile(r"\bkind: Timeout\b|\bTimedOut\b")
"""obstore reports this only in the details after the first line."""


_METADATA_SERVICE = re.compile(
    r"/latest/(?:api/token|meta-data/)|/computeMetadata/v1/|/metadata/identity/|169\.254\.\d+\.\d+|metadata\.google\.internal"
)
"""Where obstore looks for credentials last: its error mentions these if there are none at all."""
_CREDENTIALS = {
    "S3": "access_key_id and secret_access_key (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment)",
    "GCS": "service_account or application_credentials, the path of a key file (GOOGLE_APPLICATION_CREDENTIALS)",
    "MicrosoftAzure": "account_name with account_key, sas_key, or client_id, client_secret and tenant_id "
    "(AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY …)",
}
_STORE = re.compile(r"Generic (\w+) error")


@contextmanager
def store_errors(path: str) -> Iterator[None]:
    """Convert obstore's errors to ours."""
    try:
        yield
    except Exception as error:
        raise _translated(error, path) from error


def _translated(error: Exception, path: str) -> Exception:
    match type(error).__name__:
        case "AlreadyExistsError" | "FileExistsError":
            return FileExistsError(path)
        case "NotFoundError" | "FileNotFoundError":
            return MissingFileError("the object does not exist", path=path)
        case "PermissionDeniedError" | "UnauthenticatedError" | "PermissionError":
            denied = True
        case _:  # listings raise only a generic error
            denied = _DENIED.search(first_line(error)) is not None
    if _METADATA_SERVICE.search(first_line(error)):
        return AccessDeniedError(_no_credentials(first_line(error)), path=path)
    if denied:
        return AccessDeniedError(f"access denied: check the credentials ({first_line(error)})", path=path)
    if is_throttled(error):
        return StorageError(
            f"the storage asks for fewer requests, even after waiting; try again later ({first_line(error)})", path=path
        )
    if _TIMED_OUT.search(str(error)):
        return StorageError(
            f"timed out: the storage sent nothing for too long; check the network, or raise the storage option "
            f"read_timeout ({first_line(error)})",
            path=path,
        )
    return StorageError(f"the storage failed: {first_line(error)}", path=path)


def _no_credentials(said: str) -> str:
    store = _STORE.match(said)
    name = store[1] if store and store[1] in _CREDENTIALS else "S3"
    return (
        f"no credentials for {name}: pass the storage options {_CREDENTIALS[name]}; for public objects, "
        "skip_signature. The machine's metadata service, tried last, gave none either"
    )


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
