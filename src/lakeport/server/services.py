"""The services of one server, used by the routes."""

from __future__ import annotations

from dataclasses import dataclass

from lakeport.errors import SharingError
from lakeport.server.access.recipients import Doorkeeper, Proxies
from lakeport.server.access.tokens import TokenSigner
from lakeport.server.answers.async_queries import AsyncQueries
from lakeport.server.answers.service import TableService
from lakeport.server.catalog.index import CatalogView
from lakeport.server.catalog.watcher import CatalogWatcher
from lakeport.server.config import ServerConfig
from lakeport.server.credentials import CredentialVendor
from lakeport.server.http.asgi import RequestRecord, Scope
from lakeport.server.http.lanes import BlockingPool
from lakeport.server.http.refusals import refusal_of
from lakeport.server.records.audit import AuditLog
from lakeport.server.records.metrics import Metrics


@dataclass(kw_only=True)
class Services:
    """Everything that a request may need."""

    config: ServerConfig
    watcher: CatalogWatcher
    tables: TableService
    vendor: CredentialVendor
    tokens: TokenSigner
    doorkeeper: Doorkeeper
    proxies: Proxies
    lookups: BlockingPool
    answers: BlockingPool
    queries: AsyncQueries
    metrics: Metrics
    audit: AuditLog
    document: bytes = b""
    """The OpenAPI document."""
    draining: bool = False
    """Whether the server is shutting down: it still answers, but is not ready."""

    def view(self, scope: Scope) -> CatalogView:
        """The caller's view of the catalog. Raises as `Doorkeeper.admit` does."""
        return self.watcher.current().view(self.doorkeeper.admit(scope))

    def refusal(self, error: BaseException, record: RequestRecord) -> SharingError:
        return refusal_of(error, record, self.config.endpoint)

    def public_url(self, scope: Scope) -> str:
        """The URL by which the caller reaches this server."""
        return self.config.public_url or self.proxies.url(scope)


def services_of(scope: Scope) -> Services:
    found: Services = scope["state"]["services"]
    return found
