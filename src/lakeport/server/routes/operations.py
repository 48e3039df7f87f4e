"""Health, readiness, metrics and the API description. No token needed."""

from __future__ import annotations

from litestar import get, route
from litestar.enums import HttpMethod

from lakeport.server.http.asgi import JSON, Reply, Scope, json_reply, record_of
from lakeport.server.records.metrics import CONTENT_TYPE
from lakeport.server.routes.api_page import render_page
from lakeport.server.routes.parsing import HttpRequest, scope_of
from lakeport.server.services import Services, services_of

_PROBE_METHODS = [HttpMethod.GET, HttpMethod.HEAD]
_HTML = b"text/html; charset=utf-8"
_POLICY = (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'")


@route("/health", http_method=_PROBE_METHODS, sync_to_thread=False)
def health(request: HttpRequest) -> Reply:
    """The process is alive."""
    _open(request, "health")
    return json_reply({"status": "alive"})


@route("/ready", http_method=_PROBE_METHODS, sync_to_thread=False)
def ready(request: HttpRequest) -> Reply:
    """Ready: the catalog is loaded and its source responds, the audit log is writable, and the server is not shutting
    down."""
    problem = _problem(_open(request, "ready"))
    if problem is None:
        return json_reply({"status": "ready"})
    return json_reply({"status": "not ready", "reason": problem}, 503)


@get("/metrics")
async def metrics(request: HttpRequest) -> Reply:
    services = _open(request, "metrics")
    return Reply(200, [(b"content-type", CONTENT_TYPE)], await services.lookups.run(services.metrics.text))


@get("/openapi.json", sync_to_thread=False)
def openapi(request: HttpRequest) -> Reply:
    return Reply(200, [(b"content-type", JSON)], _open(request, "openapi").document)


@get("/docs", sync_to_thread=False)
def api_page(request: HttpRequest) -> Reply:
    return Reply(200, [(b"content-type", _HTML), _POLICY], render_page(_open(request, "docs").document))


PROBES = (health, ready)
DESCRIPTIONS = (openapi, api_page)


def _open(request: HttpRequest, operation: str) -> Services:
    scope: Scope = scope_of(request)
    record_of(scope).operation = operation
    return services_of(scope)


def _problem(services: Services) -> str | None:
    if services.draining:
        return "the server is shutting down"
    # An invalid new catalog is rejected; the last good one is served.
    if not services.watcher.answers:
        return "the catalog does not respond"
    if services.audit.problem is not None:
        return "the audit log cannot be written"
    return None
