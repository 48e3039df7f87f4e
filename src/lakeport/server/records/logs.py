"""The server's log: text for people or JSON for machines; each line has its request's id.

No secrets are logged: no headers, no query strings (they carry page tokens and signatures), no file URLs.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from datetime import UTC, datetime
from typing import Any

import msgspec

from lakeport.server.http.asgi import REQUEST_ID, RequestRecord

_log = logging.getLogger(__name__)

_ENCODER = msgspec.json.Encoder(enc_hook=str)
_SECRETS = re.compile(
    r"((?:Bearer\s+|(?:X-Amz-[A-Za-z]+|X-Goog-[A-Za-z]+|sig|se|sp|pageToken|refreshToken)=))[^\s&\"',;)]+",
    re.IGNORECASE,
)
_PLAIN = re.compile(r'[^\s"=]+')
_TOPIC_SECONDS = 10.0
_CONTROLS = {code: f"\\x{code:02x}" for code in [*range(32), *range(127, 160)] if chr(code) != "\t"}
_CONTROLS |= {ord("\n"): "\\n", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def set_up_logging(log_format: str) -> None:
    """Send this process's logs to stderr. `log_format` is `json` or `text`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if log_format == "json" else TextLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("lakeport").setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    logging.getLogger("uvicorn.access").disabled = True


def log_request(record: RequestRecord) -> None:
    """Log one line per answered request: at INFO, or WARNING if the server failed."""
    level = logging.WARNING if record.status >= 500 or not record.complete else logging.INFO
    if _log.isEnabledFor(level):
        recipient = record.recipient.name if record.recipient else "-"
        milliseconds = record.seconds * 1000
        _log.log(
            level,
            "%s %s %d %.1fms recipient=%s address=%s%s",
            record.method,
            record.path,
            record.status,
            milliseconds,
            recipient,
            _quoted(record.address),
            f" error={_quoted(record.error)}" if record.error else "",
            extra={
                "fields": {
                    "method": record.method,
                    "path": record.path,
                    "operation": record.operation,
                    "status": record.status,
                    "milliseconds": round(milliseconds, 3),
                    "recipient": recipient,
                    "address": record.address,
                    **({"error": record.error} if record.error else {}),
                }
            },
        )


class Throttled:
    """Logs events that clients can trigger at will: one line per topic in ten seconds, with a count of the rest."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)
        self._topics: dict[str, tuple[float, int]] = {}
        """When each topic was last logged, and how many of its lines were dropped since."""

    def warning(self, topic: str, message: str, *arguments: object) -> None:
        now = time.monotonic()
        logged, left_out = self._topics.get(topic, (-_TOPIC_SECONDS, 0))
        if now - logged < _TOPIC_SECONDS:
            self._topics[topic] = (logged, left_out + 1)
            return
        self._topics[topic] = (now, 0)
        more = f" ({left_out} more since the last such line)" if left_out else ""
        self._logger.warning(f"{message}%s", *arguments, more)


class TextLines(logging.Formatter):
    """`2026-01-01T00:00:00.000Z INFO id message`."""

    def format(self, record: logging.LogRecord) -> str:
        identity = REQUEST_ID.get() or "-"
        return f"{_time(record)} {record.levelname} {identity} {_message(self, record)}"


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(self, record),
            **getattr(record, "fields", {}),
        }
        if (identity := REQUEST_ID.get()) is not None:
            line["requestId"] = identity
        return _ENCODER.encode(line).decode()


def without_secrets(text: str) -> str:
    """Redact anything that looks like a token or a signature, and make control characters visible."""
    return _SECRETS.sub(r"\1…", text).translate(_CONTROLS)


def _quoted(text: str) -> str:
    """One field of a line, safe for any client input."""
    return text if _PLAIN.fullmatch(text) else _ENCODER.encode(text).decode()


def _message(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    """Indent continuation lines, so that client input cannot fake a log line."""
    lines = [record.getMessage()]
    if record.exc_info:
        lines += formatter.formatException(record.exc_info).splitlines()
    return "\n  ".join(map(without_secrets, lines))


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _is_news(record: logging.LogRecord) -> bool:
    """Drop uvicorn's messages on responses aborted on purpose; those are logged with their reason already."""
    return "returned without completing response" not in str(record.msg)
