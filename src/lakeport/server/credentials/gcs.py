"""GCS: the server's access token, downscoped to a prefix with a credential access boundary."""

from __future__ import annotations

import json
from datetime import UTC
from typing import TYPE_CHECKING, Any

from lakeport.locations import Location
from lakeport.server.credentials.cloud_vendor import GcsOptions, Grant, Granted, StoreOptions
from lakeport.sharing.models import GcpOauthToken

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

_SCOPES = ("https://www.googleapis.com/auth/devstorage.read_only", "https://www.googleapis.com/auth/cloud-platform")
_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
_LIST_PREFIX = "storage.googleapis.com/objectListPrefix"
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"


class GcsVendor:
    """The token lives as long as the server's own, at most an hour. The bucket needs uniform bucket-level access,
    because boundaries do not apply to access control lists."""

    def __init__(self, options: GcsOptions) -> None:
        self._options = options

    def vend(self, grant: Grant) -> Granted:
        from google.auth.transport.requests import Request
        from google.oauth2.sts import Client

        source = _open_source(StoreOptions(grant.storage, ("google_",)))
        request = Request()
        try:
            source.refresh(request)
            answer = Client(self._options.sts_endpoint).exchange_token(
                request=request,
                grant_type=_EXCHANGE,
                subject_token=source.token,
                subject_token_type=_ACCESS_TOKEN,
                requested_token_type=_ACCESS_TOKEN,
                additional_options=access_boundary(grant.place),
            )
        finally:
            request.session.close()
        return Granted(GcpOauthToken(oauth_token=answer["access_token"]), _expires(answer, source, grant.now))


def _expires(answer: dict[str, Any], source: Credentials, now: float) -> float:
    """The exchange may omit the expiry; then the exchanged token's applies."""
    seconds = answer.get("expires_in")
    if seconds is None and source.expiry is not None:
        return float(source.expiry.replace(tzinfo=UTC).timestamp())
    return now + float(seconds or 0)


def _open_source(storage: StoreOptions) -> Credentials:
    from google.auth import default
    from google.oauth2.service_account import Credentials as ServiceAccount

    source: Credentials
    if key := storage.get("service_account_key"):
        source = ServiceAccount.from_service_account_info(json.loads(key), scopes=_SCOPES)
    elif path := storage.get("service_account", "service_account_path"):
        source = ServiceAccount.from_service_account_file(path, scopes=_SCOPES)
    else:
        source = default(scopes=_SCOPES)[0]
    return source


def access_boundary(place: Location) -> dict[str, Any]:
    """Allow reading and listing the objects below the prefix, whatever the server itself may do."""
    bucket = f"projects/_/buckets/{place.bucket}"
    rule: dict[str, Any] = {
        "availableResource": f"//storage.googleapis.com/{bucket}",
        "availablePermissions": ["inRole:roles/storage.objectViewer"],
    }
    if place.segments:
        read = f"resource.name.startsWith({_literal(f'{bucket}/objects/{place.prefix}')})"
        listed = f"api.getAttribute({_literal(_LIST_PREFIX)}, '').startsWith({_literal(place.prefix)})"
        rule["availabilityCondition"] = {"expression": f"{read} || {listed}"}
    return {"accessBoundary": {"accessBoundaryRules": [rule]}}


def _literal(text: str) -> str:
    """A string literal in the Common Expression Language."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
