"""Server settings: a YAML file with the reference server's keys, and more."""

from __future__ import annotations

import logging
import os
import secrets
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from lakeport.errors import CatalogError
from lakeport.server.catalog.model import CatalogSource
from lakeport.server.catalog.rules import check_network
from lakeport.server.catalog.yaml_file import convert, read_yaml, unknown_keys
from lakeport.server.catalog.yaml_source import (
    AuthorizationSettings,
    RecipientSettings,
    Settings,
    ShareSettings,
    YamlSource,
)

_log = logging.getLogger(__name__)
_VERSION = 1
_KEY_VARIABLE = "LAKEPORT_SIGNING_KEY"
_SHORTEST_KEY = 16
_VALIDITY_SECONDS = 3600

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]


class TlsSettings(Settings, frozen=True):
    """PEM files."""

    certificate_file: str | None = None
    certificate_key_file: str | None = None
    certificate_password_file: str | None = None
    self_signed: bool = False


class Limits(Settings, frozen=True):
    """Resource limits. A count of 0 means no limit."""

    head_bytes: Annotated[int, Meta(ge=1024)] = 64 * 1024
    """Bytes of a request outside its body: request line, headers, chunk framing and trailers."""
    header_count: Positive = 100
    """Headers and trailers per request."""
    head_seconds: Seconds = 30.0
    """Time for the request line and headers to arrive; with TLS, also for the handshake."""
    body_seconds: Seconds = 30.0
    """Time for a request body to arrive."""
    stall_seconds: Seconds = 120.0
    """How long a client may leave a response unread."""
    pipelined_requests: Count = 16
    """Requests on a connection that wait for earlier ones; reading pauses at this number."""
    connections: Count = 0
    """0: as many as the process has file descriptors for."""
    connections_per_address: Count = 500
    partial_requests_per_address: Count = 100
    """Requests that have arrived only in part."""
    failed_tokens_per_minute: Count = 60
    """Bad tokens from an address before all its tokens are refused unchecked."""
    lookup_threads: Positive = 32
    """Threads for short work: versions, metadata, credentials. One table uses at most a quarter of them."""
    answer_threads: Positive = 32
    """Threads that plan queries and write their lines, divided the same way."""


class ServerConfig(Settings, frozen=True):
    """All settings with their defaults. In the file, keys are in camel case: `preSignedUrlTimeoutSeconds`."""

    version: int = _VERSION
    shares: tuple[ShareSettings, ...] = ()
    authorization: AuthorizationSettings | None = None
    ssl: TlsSettings | None = None
    host: str = "localhost"
    port: Annotated[int, Meta(ge=0, le=65535)] = 80
    endpoint: str = "/delta-sharing"
    """The path of the API, with a leading slash and no trailing one."""
    pre_signed_url_timeout_seconds: Positive = 3600
    temporary_credential_validity_seconds: int = _VALIDITY_SECONDS
    delta_table_cache_size: Count = 10
    staleness_acceptable: bool = False
    """Whether a cached snapshot may be served without looking for newer versions."""
    evaluate_predicate_hints: bool = False
    evaluate_json_predicate_hints: bool = True
    evaluate_json_predicate_hints_v2: bool = True
    request_timeout_seconds: Count = 30
    """0 means no limit."""
    query_table_page_size_limit: Positive = 10_000
    query_table_page_token_ttl_ms: Positive = 259_200_000
    refresh_token_ttl_ms: Positive = 3_600_000

    # Not in the reference server.
    recipients: tuple[RecipientSettings, ...] = ()
    anonymous: bool = False
    catalog: str | None = None
    """A database that holds shares and recipients instead of this file: sqlite:///path or postgresql://…"""
    catalog_max_age_seconds: Annotated[float, Meta(ge=0)] = 30
    """How long to serve a catalog whose source does not respond; 0 means forever."""
    storage: dict[str, str] = msgspec.field(default_factory=dict)
    """Object store options for all tables, by obstore's names."""
    public_url: str | None = None
    """The URL by which recipients reach the server, without the endpoint; None: taken from their requests."""
    signing_key: str | None = None
    signing_key_file: str | None = None
    rate_limit: Count = 0
    """Requests per minute and recipient; 0 means no limit."""
    max_request_bytes: Positive = 1 << 20
    limits: Limits = Limits()
    audit_log: str | None = None
    """A file, or `-` for stdout."""
    audit_required: bool = False
    """Whether to refuse requests on tables while the audit log cannot be written."""
    log_format: Literal["json", "text"] = "text"
    cors_allow_origins: tuple[str, ...] = ()
    metrics: bool = True
    async_query_after_seconds: Annotated[float, Meta(ge=0)] = 20
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks whose X-Forwarded-For is trusted."""
    temporary_credentials: dict[str, Any] = msgspec.field(default_factory=dict)
    path: str | None = None
    """The settings file; set by `load_config`."""

    def __post_init__(self) -> None:
        if self.public_url is not None and not self.public_url.startswith(("http://", "https://")):
            raise ValueError("publicUrl must be a URL like https://sharing.example.com")

    @property
    def has_catalog(self) -> bool:
        """Whether the file itself defines shares or recipients."""
        return bool(self.shares or self.recipients or self.authorization or self.anonymous)

    @property
    def url(self) -> str:
        """The URL by which recipients reach the API, as far as the settings define it."""
        scheme, standard = ("http", 80) if self.ssl is None else ("https", 443)
        host = f"[{self.host}]" if ":" in self.host else self.host
        here = f"{scheme}://{host}" if self.port == standard else f"{scheme}://{host}:{self.port}"
        return (self.public_url or here) + self.endpoint


def load_config(path: str | Path) -> ServerConfig:
    """Load settings from a YAML file. Unknown keys are ignored with a warning.

    Raises `CatalogError` that names the key of an invalid value, `OSError` if the file cannot be read."""
    document = read_yaml(path)
    _check_version(document, path)
    for key in unknown_keys(document, ServerConfig):
        _log.warning("%s: unknown key %s has no effect", path, key)
    config = _completed(convert(document, ServerConfig, path), path)
    _check_tls(config.ssl, path)
    for network in config.trusted_proxies:
        check_network(network, f"{path}: trustedProxies")
    if config.catalog is not None and config.has_catalog:
        raise CatalogError(
            f"{path}: catalog names a database, but the file also has shares, recipients, authorization or anonymous:"
            " remove either those keys or catalog"
        )
    return config


def open_catalog(config: ServerConfig) -> CatalogSource:
    """The source of shares and recipients: the database, or else the settings file."""
    if config.catalog is not None:
        from lakeport.server.catalog.sql_source import SqlSource  # spare YAML catalogs its memory

        return SqlSource(config.catalog)
    if config.path is not None:
        return YamlSource(config.path, ServerConfig)
    raise CatalogError("there is nothing to share: pass a configuration file or the URL of a catalog")


def signing_key(config: ServerConfig, source: CatalogSource) -> bytes:
    """The secret that signs tokens and URLs: from the settings, else the environment, else the catalog, else a random
    one that is lost on exit. Raises `CatalogError` for one that can be guessed."""
    if text := _configured_key(config):
        if len(text) < _SHORTEST_KEY:
            raise CatalogError(f"the signing key is too short: it must have at least {_SHORTEST_KEY} characters")
        return text.encode()
    if key := source.signing_key():
        return key
    _log.warning(
        "no signing key: URLs and page tokens expire with this process; set signingKeyFile or %s", _KEY_VARIABLE
    )
    return secrets.token_bytes(32)


def _configured_key(config: ServerConfig) -> str | None:
    if config.signing_key is not None:
        return config.signing_key
    if config.signing_key_file is not None:
        try:
            return Path(config.signing_key_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise CatalogError(f"signingKeyFile cannot be read: {error}") from error
    return os.environ.get(_KEY_VARIABLE)


def _check_version(document: dict[str, Any], path: str | Path) -> None:
    version = document.get("version")
    if version is None:
        raise CatalogError(f"{path}: version is missing: begin the file with version: {_VERSION}")
    if version != str(_VERSION):
        raise CatalogError(f"{path}: version is {version!r}, but this server supports only version {_VERSION}")


def _completed(config: ServerConfig, path: str | Path) -> ServerConfig:
    """Normalise values that have several spellings."""
    endpoint = config.endpoint.strip("/")
    validity = config.temporary_credential_validity_seconds
    return msgspec.structs.replace(
        config,
        path=str(path),
        endpoint=f"/{endpoint}" if endpoint else "",
        public_url=config.public_url and config.public_url.rstrip("/"),
        temporary_credential_validity_seconds=validity if validity > 0 else _VALIDITY_SECONDS,
    )


def _check_tls(tls: TlsSettings | None, path: str | Path) -> None:
    if tls is None:
        return
    if tls.self_signed:
        raise CatalogError(
            f"{path}: ssl.selfSigned: this server does not create certificates; create one with"
            " `openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 365 -subj /CN=localhost`"
            " and name the files in ssl.certificateFile and ssl.certificateKeyFile"
        )
    files = {"certificateFile": tls.certificate_file, "certificateKeyFile": tls.certificate_key_file}
    for name, file in files.items():
        if file is None:
            raise CatalogError(f"{path}: ssl.{name} is missing")
