"""The outermost layer: every request gets an id, is counted, logged and audited, whatever becomes of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from lakeport.server.asgi import Message, Receive, Scope, Send
from lakeport.server.exchange import REQUEST_ID, Exchange
from lakeport.server.logs import log_request
from lakeport.server.services import Services

Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class Observed:
    """An application under observation; requests for files go to an application of their own."""

    def __init__(self, api: Application, files: Application, services: Services) -> None:
        self._api, self._files, self.services = api, files, services
        self._files_prefix = f"{services.config.endpoint}/files/"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._api(scope, receive, send)
            return
        exchange = Exchange(scope, self.services.proxies.client_address(scope))
        scope.setdefault("state", {}).update(exchange=exchange, services=self.services)
        application = self._files if scope["path"].startswith(self._files_prefix) else self._api
        identity = REQUEST_ID.set(exchange.request_id)
        self.services.metrics.begin()
        try:
            await application(scope, receive, _watched(exchange, send))
        finally:
            self._end(exchange)
            REQUEST_ID.reset(identity)

    def _end(self, exchange: Exchange) -> None:
        self.services.metrics.end(exchange)
        self.services.audit.write(exchange)
        log_request(exchange)


def _watched(exchange: Exchange, send: Send) -> Send:
    """Sends, and notes what was sent."""

    async def watched(message: Message) -> None:
        if message["type"] == "http.response.start":
            exchange.status = message["status"]
            message["headers"] = [*message.get("headers", ()), (b"x-request-id", exchange.request_id.encode())]
            await send(message)
            return
        await send(message)
        exchange.sent += len(message.get("body", b""))
        exchange.complete = not message.get("more_body", False)

    return watched
