"""The outermost layer: gives every request and response an id; counts, logs and audits them, whatever the outcome."""

from __future__ import annotations

from lakeport.server.http.asgi import REQUEST_ID, Application, Message, Receive, RequestRecord, Scope, Send
from lakeport.server.http.refusals import Refusal, error_reply
from lakeport.server.records.audit import AuditLog
from lakeport.server.records.logs import log_request
from lakeport.server.services import Services


class Observed:
    """The whole server: observes each request and passes it to the API, or to the application that serves files."""

    def __init__(self, api: Application, files: Application, services: Services) -> None:
        self._api, self._files, self.services = api, files, services
        self._files_prefix = f"{services.config.endpoint}/files/"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._api(scope, receive, send)
            return
        record = RequestRecord(scope, self.services.proxies.client_address(scope))
        scope.setdefault("state", {}).update(record=record, services=self.services)
        application = self._files if scope["path"].startswith(self._files_prefix) else self._api
        identity = REQUEST_ID.set(record.request_id)
        self.services.metrics.begin()
        watched = _Watched(record, send, self.services.audit)
        try:
            await application(scope, receive, watched)
        except Exception:
            if watched.refusal is None:
                raise
            record.error, record.files, record.bytes = str(watched.refusal), 0, 0
            await error_reply(watched.refusal)(scope, receive, watched)
        finally:
            self._end(record)
            REQUEST_ID.reset(identity)

    def _end(self, record: RequestRecord) -> None:
        self.services.metrics.end(record)
        self.services.audit.write(record)
        log_request(record)


class _Watched:
    """Sends and records a response, with the request's id. Rejects a request whose audit record is required but cannot
    be written."""

    def __init__(self, record: RequestRecord, send: Send, audit: AuditLog) -> None:
        self._request, self._send, self._audit = record, send, audit
        self.refusal: Refusal | None = None

    async def __call__(self, message: Message) -> None:
        record = self._request
        if message["type"] == "http.response.start":
            if message["status"] < 400:
                await self._record()
            record.status = message["status"]
            message["headers"] = [*message.get("headers", ()), (b"x-request-id", record.request_id.encode())]
            await self._send(message)
            return
        await self._send(message)
        record.sent += len(message.get("body", b""))
        record.complete = not message.get("more_body", False)

    async def _record(self) -> None:
        try:
            await self._audit.begin(self._request)
        except Refusal as refusal:
            self.refusal = refusal
            raise
