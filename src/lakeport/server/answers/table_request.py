"""A request on a table, with everything that its answer depends on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import msgspec

from lakeport.server.catalog.model import Recipient, Table
from lakeport.server.http.refusals import invalid
from lakeport.sharing.capabilities import Capabilities


@dataclass(frozen=True, kw_only=True)
class TableRequest:
    """The recipient, the table, and the client's capabilities."""

    table: Table
    recipient: Recipient
    capabilities: Capabilities
    public_url: str
    """The URL by which the recipient reaches this server, without the endpoint."""
    file_id_hash: str | None = None

    @property
    def table_name(self) -> str:
        return f"{self.table.share}.{self.table.schema}.{self.table.name}"

    def fingerprint(self, *parameters: object) -> str:
        """A hash that binds a page token to the table, the recipient and the parameters."""
        parts = (self.table.id, self.recipient.id, self.file_id_hash, self.capabilities.response_formats, parameters)
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:32]

    def check_history(self, *parameters: object) -> None:
        """Raises `SharingError` if one of the parameters is set and the table's history is not shared."""
        if any(parameter is not None for parameter in parameters) and not self.table.history_shared:
            raise invalid(
                f"reading by version or timestamp is not allowed: the history of the table {self.table_name} is not "
                "shared; ask its provider for historyShared"
            )

    def check_start(self, version: int) -> None:
        """Raises `SharingError` if the version is before the first shared one."""
        if version < self.table.start_version:
            raise invalid(
                f"version {version} of the table {self.table_name} is not shared: the first shared version is "
                f"{self.table.start_version}"
            )
