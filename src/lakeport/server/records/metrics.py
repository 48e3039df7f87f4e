"""Prometheus metrics."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from lakeport.server.http.asgi import RequestRecord

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

disable_created_metrics()  # type: ignore[no-untyped-call]  # they would double the output with times nobody needs

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = self._counter("requests", "Finished requests.", "operation", "status")
        self._seconds = Histogram(
            "lakeport_request_seconds",
            "Time until the last byte of a response.",
            ["operation"],
            registry=self._registry,
            buckets=_SECONDS,
        )
        self._files = self._counter("files_granted", "Files that responses gave access to.")
        self._bytes = self._counter("bytes_granted", "Bytes of files that responses gave access to.")
        self._incomplete = self._counter("answers_incomplete", "Responses that broke off.")
        self._open = self._gauge("requests_open", "Requests in progress.")

    def begin(self) -> None:
        self._open.inc()

    def end(self, record: RequestRecord) -> None:
        self._open.dec()
        self._requests.labels(record.operation, str(record.status)).inc()
        self._seconds.labels(record.operation).observe(record.seconds)
        if record.files and record.operation != "file":  # downloads were counted when granted
            self._files.inc(record.files)
            self._bytes.inc(record.bytes)
        if not record.complete:
            self._incomplete.inc()

    def watch(self, name: str, description: str, value: Callable[[], float]) -> None:
        """A gauge that calls `value` on every scrape."""
        self._gauge(name, description).set_function(value)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def _counter(self, name: str, description: str, *labels: str) -> Counter:
        return Counter(f"lakeport_{name}", description, labels, registry=self._registry)

    def _gauge(self, name: str, description: str) -> Gauge:
        return Gauge(f"lakeport_{name}", description, registry=self._registry)
