"""The application: the protocol's routes under the configured endpoint, over the services of one server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from litestar import Litestar, Response, Router
from litestar.config.cors import CORSConfig

from lakeport.server.access.recipients import Doorkeeper, FailedTokens, Proxies, RateLimiter
from lakeport.server.access.tokens import TokenSigner
from lakeport.server.answers.async_queries import AsyncQueries
from lakeport.server.answers.opened_tables import TableCache
from lakeport.server.answers.service import TableService
from lakeport.server.answers.versions import QueryRules, Versions
from lakeport.server.catalog.model import CatalogSource
from lakeport.server.catalog.watcher import CatalogWatcher
from lakeport.server.config import ServerConfig, open_catalog, signing_key
from lakeport.server.credentials import CredentialVendor
from lakeport.server.files import FilesApp
from lakeport.server.http.asgi import JSON, record_of
from lakeport.server.http.lanes import BlockingPool
from lakeport.server.http.refusals import error_reply
from lakeport.server.middleware import Observed
from lakeport.server.records.audit import AuditLog
from lakeport.server.records.metrics import Metrics
from lakeport.server.routes.listing import LISTING_ROUTES
from lakeport.server.routes.openapi import describe_api
from lakeport.server.routes.operations import DESCRIPTIONS, PROBES, metrics
from lakeport.server.routes.parsing import HttpRequest, scope_of
from lakeport.server.routes.tables import TABLE_ROUTES
from lakeport.server.services import Services, services_of
from lakeport.server.signing.signers import Signers

_EXPOSED = ["Delta-Table-Version", "delta-sharing-capabilities", "fileidhash", "X-Request-Id", "Retry-After"]


def create_app(
    config: ServerConfig,
    *,
    source: CatalogSource | None = None,
    tables: TableService | None = None,
) -> Observed:
    """The server as an ASGI application. `source` replaces the configured catalog, `tables` the service that answers
    requests on tables. Loads the catalog; raises `CatalogError` if it is invalid."""
    source = source or open_catalog(config)
    key = signing_key(config, source)
    watcher = CatalogWatcher(source, max_age_seconds=config.catalog_max_age_seconds)
    services = _services(config, watcher, key, tables)
    files = FilesApp(watcher.current, key, endpoint=config.endpoint, stall_seconds=config.limits.stall_seconds)
    closing = [services.lookups.close, services.answers.close, files.close, services.audit.close, source.close]
    return Observed(_api(services, closing), files, services)


def _services(config: ServerConfig, watcher: CatalogWatcher, key: bytes, tables: TableService | None) -> Services:
    tokens, proxies, measured = TokenSigner(key), Proxies(config.trusted_proxies), Metrics()
    measured.watch("catalog_age_seconds", "Seconds since the catalog last answered.", lambda: watcher.age)
    measured.watch("catalog_problem", "1 if the catalog cannot be reached.", lambda: watcher.problem is not None)
    if tables is None:
        cache = TableCache(config.storage, config.delta_table_cache_size, config.staleness_acceptable)
        measured.watch("tables_cached", "Tables whose snapshots are cached.", lambda: len(cache))
        tables = TableService(Versions(cache, tokens, _rules(config)), _signers(config, key))
    audit = AuditLog(config.audit_log, required=config.audit_required)
    measured.watch("audit_log_failing", "1 if the audit log cannot be written.", lambda: audit.problem is not None)
    measured.watch("audit_lines_waiting", "Audit log lines waiting to be written.", lambda: audit.waiting)
    measured.watch("audit_lines_lost", "Audit log lines that were lost.", lambda: audit.lost)
    return Services(
        config=config,
        watcher=watcher,
        tables=tables,
        vendor=CredentialVendor(
            config.temporary_credentials, config.storage, config.temporary_credential_validity_seconds
        ),
        tokens=tokens,
        doorkeeper=Doorkeeper(
            watcher.current, RateLimiter(config.rate_limit), FailedTokens(config.limits.failed_tokens_per_minute)
        ),
        proxies=proxies,
        lookups=BlockingPool("lookups", config.limits.lookup_threads),
        answers=BlockingPool("answers", config.limits.answer_threads),
        queries=AsyncQueries(tokens, config.async_query_after_seconds),
        metrics=measured,
        audit=audit,
        document=describe_api(config),
    )


def _signers(config: ServerConfig, key: bytes) -> Signers:
    return Signers(key, endpoint=config.endpoint, seconds=config.pre_signed_url_timeout_seconds, storage=config.storage)


def _rules(config: ServerConfig) -> QueryRules:
    return QueryRules(
        page_size_limit=config.query_table_page_size_limit,
        page_token_seconds=config.query_table_page_token_ttl_ms / 1000,
        refresh_token_seconds=config.refresh_token_ttl_ms / 1000,
        use_sql_hints=config.evaluate_predicate_hints,
        use_json_hints=config.evaluate_json_predicate_hints or config.evaluate_json_predicate_hints_v2,
    )


def _api(services: Services, closing: Sequence[Callable[[], None]]) -> Any:
    config = services.config
    shared = Router(path=config.endpoint or "/", route_handlers=[*LISTING_ROUTES, *TABLE_ROUTES, *DESCRIPTIONS])
    origins = list(config.cors_allow_origins)
    return Litestar(
        route_handlers=[shared, *PROBES, *([metrics] if config.metrics else [])],
        openapi_config=None,
        logging_config=None,
        exception_handlers={Exception: _refused},
        request_max_body_size=config.max_request_bytes,
        cors_config=CORSConfig(allow_origins=origins, expose_headers=_EXPOSED) if origins else None,
        lifespan=[lambda _: _running(services.watcher, closing)],
    )


@asynccontextmanager
async def _running(watcher: CatalogWatcher, closing: Sequence[Callable[[], None]]) -> AsyncIterator[None]:
    """Watch the catalog while the server runs."""
    following = asyncio.create_task(watcher.run())
    try:
        yield
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        for close in closing:
            close()


def _refused(request: HttpRequest, error: Exception) -> Response[bytes]:
    scope = scope_of(request)
    record = record_of(scope)
    refusal = services_of(scope).refusal(error, record)
    record.error = str(refusal)
    reply = error_reply(refusal)
    headers = {str(name, "latin-1"): str(value, "latin-1") for name, value in reply.headers}
    body = b"" if request.method == "HEAD" else reply.body
    return Response(body, status_code=reply.status, headers=headers, media_type=JSON.decode())
