"""JSON models of requests and lists. The lines of table responses are in `lines`.

Null and empty fields are omitted; unknown fields are ignored.
"""

from __future__ import annotations

from typing import Any

import msgspec


class WireModel(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A JSON object of the protocol."""


class Share(WireModel, frozen=True):
    name: str
    id: str | None = None
    display_name: str | None = None
    comment: str | None = None
    properties: dict[str, str] = msgspec.field(default_factory=dict)


class Schema(WireModel, frozen=True):
    name: str
    share: str


class Table(WireModel, frozen=True):
    name: str
    schema: str
    share: str
    share_id: str | None = None
    id: str | None = None
    location: str | None = None
    auxiliary_locations: tuple[str, ...] = ()
    access_modes: tuple[str, ...] = ()


class SharePage(WireModel, frozen=True):
    items: list[Share] = msgspec.field(default_factory=list)
    next_page_token: str | None = None


class SchemaPage(WireModel, frozen=True):
    items: list[Schema] = msgspec.field(default_factory=list)
    next_page_token: str | None = None


class TablePage(WireModel, frozen=True):
    items: list[Table] = msgspec.field(default_factory=list)
    next_page_token: str | None = None


class ShareAnswer(WireModel, frozen=True):
    share: Share


class ErrorBody(WireModel, frozen=True, omit_defaults=False):
    """The body of every answer that is not a success."""

    error_code: str
    message: str


class QueryRequest(WireModel, frozen=True):
    """The body of `POST …/query`. 64-bit numbers may come as text."""

    predicate_hints: list[str] | None = None
    json_predicate_hints: str | None = None
    limit_hint: int | None = None
    version: int | None = None
    timestamp: str | None = None
    starting_version: int | None = None
    ending_version: int | None = None
    max_files: int | None = None
    page_token: str | None = None
    include_refresh_token: bool | None = None
    refresh_token: str | None = None
    include_historical_protocol: bool | None = None
    idempotency_key: str | None = None


class QueryStatusRequest(WireModel, frozen=True):
    """The body of `POST …/queries/{queryId}`."""

    max_files: int | None = None
    page_token: str | None = None


class ChangesRequest(WireModel, frozen=True):
    """The parameters of `GET …/changes`."""

    starting_version: int | None = None
    starting_timestamp: str | None = None
    ending_version: int | None = None
    ending_timestamp: str | None = None
    include_historical_metadata: bool = False
    include_historical_protocol: bool = False
    max_files: int | None = None
    page_token: str | None = None


class CredentialsRequest(WireModel, frozen=True):
    """The body of `POST …/temporary-table-credentials`."""

    location: str | None = None


class Secret(WireModel, frozen=True):
    """Shown without its values, in Rich's tracebacks too."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


class AwsTempCredentials(Secret, frozen=True):
    access_key_id: str
    secret_access_key: str
    session_token: str


class AzureUserDelegationSas(Secret, frozen=True):
    sas_token: str


class GcpOauthToken(Secret, frozen=True):
    oauth_token: str


class Credentials(WireModel, frozen=True):
    """Read access to everything below `location`, until `expiration_time` (milliseconds since the epoch). Exactly one
    of the three kinds is there."""

    location: str
    expiration_time: int
    aws_temp_credentials: AwsTempCredentials | None = None
    azure_user_delegation_sas: AzureUserDelegationSas | None = None
    gcp_oauth_token: GcpOauthToken | None = None


class CredentialsAnswer(WireModel, frozen=True):
    credentials: Credentials
