"""The server that is tested, and how the suite asks it.

By default the suite writes its tables, serves them, and asks that server. To test another one, write its tables with
`tests.conformance.roles`, share them there, and name a profile in the environment:

    LAKEPORT_CONFORMANCE_PROFILE=profile.yaml pytest tests/conformance

    endpoint: https://sharing.example.org/delta-sharing
    bearerToken: …
    roles:
      plain: {table: share.schema.plain, location: /data/roles/plain}
      feed: {table: share.schema.feed}

A rule whose role is missing is skipped. `location` is where the suite can read the table itself; without it, rows are
fetched but not compared.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

CAPABILITIES = "delta-sharing-capabilities"
PARQUET = "responseformat=parquet"
FEATURES = "readerfeatures=deletionvectors,columnmapping,timestampntz,typewidening"
DELTA = f"responseformat=delta;{FEATURES}"
END = ";includeendstreamaction=true"
FORMATS = {"parquet": PARQUET, "delta": DELTA}
both_formats = pytest.mark.parametrize("capabilities", FORMATS.values(), ids=FORMATS)


@dataclass(frozen=True)
class Answer:
    """The answer to a request on a table."""

    response: requests.Response

    @cached_property
    def lines(self) -> list[dict[str, Any]]:
        assert self.response.status_code == 200, self.response.text
        return [json.loads(line) for line in self.response.text.splitlines()]

    @property
    def version(self) -> int:
        return int(self.response.headers["Delta-Table-Version"])

    @property
    def capabilities(self) -> dict[str, str]:
        text = self.response.headers.get(CAPABILITIES, "")
        return dict(part.split("=", 1) for part in text.split(";") if part)

    @property
    def format(self) -> str:
        assert self.response.status_code == 200, self.response.text
        return self.capabilities.get("responseformat", "parquet").lower()

    @property
    def protocol(self) -> dict[str, Any]:
        body: dict[str, Any] = self.lines[0]["protocol"]
        return body

    @property
    def metadata(self) -> dict[str, Any]:
        body: dict[str, Any] = self.lines[1]["metaData"]
        return body

    @property
    def delta_metadata(self) -> dict[str, Any]:
        """The metadata of the table in either format; in the parquet format some keys are missing."""
        body: dict[str, Any] = self.metadata.get("deltaMetadata", self.metadata)
        return body

    @property
    def fields(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.delta_metadata["schemaString"])["fields"]
        return found

    @property
    def later_lines(self) -> list[dict[str, Any]]:
        """What follows the protocol and the metadata, but for the end."""
        return [line for line in self.lines[2:] if "endStreamAction" not in line]

    @property
    def historical_metadata(self) -> list[dict[str, Any]]:
        return [line["metaData"] for line in self.later_lines if "metaData" in line]

    @property
    def files(self) -> list[File]:
        kinds = ("file", "add", "remove", "cdf")
        return [File(kind, line[kind]) for line in self.later_lines for kind in kinds if kind in line]

    @property
    def end(self) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.lines[-1].get("endStreamAction")
        return found


@dataclass(frozen=True)
class File:
    """A line about a file, in either format."""

    key: str
    body: dict[str, Any]

    @property
    def kind(self) -> str:
        """`add` (also of a snapshot), `remove` or `cdf`."""
        if "deltaSingleAction" in self.body:
            (kind,) = self.body["deltaSingleAction"]
            return "cdf" if kind == "cdc" else str(kind)
        return "add" if self.key == "file" else self.key

    @property
    def action(self) -> dict[str, Any]:
        """Where the fields of the file itself are."""
        if "deltaSingleAction" in self.body:
            (action,) = self.body["deltaSingleAction"].values()
            return dict(action)
        return self.body

    @property
    def url(self) -> str:
        return str(self.action.get("path", self.body.get("url")))


@dataclass(frozen=True)
class Target:
    """A sharing server."""

    endpoint: str
    token: str
    roles: dict[str, dict[str, str]]
    own: bool = False
    """Whether the suite itself serves: then nothing may be missing."""
    session: requests.Session = field(default_factory=requests.Session)

    def request(self, method: str, path: str, **options: Any) -> requests.Response:
        token = options.pop("token", self.token)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        options["headers"] = headers | {k: v for k, v in options.get("headers", {}).items() if v is not None}
        return self.session.request(method, f"{self.endpoint}/{path}", timeout=60, **options)

    def get(self, path: str, **parameters: Any) -> requests.Response:
        return self.request("GET", path, params=parameters)

    def table(self, role: str) -> SharedTable:
        """The table that plays a role, or a skip."""
        if role not in self.roles:
            if self.own:
                pytest.fail(f"no table plays the role {role}")
            pytest.skip(f"the profile has no table for the role {role}")
        share, schema, name = self.roles[role]["table"].rsplit(".", 2)
        return SharedTable(self, share, schema, name, self.roles[role].get("location"))

    def requires(self, needed: str, *, present: bool) -> None:
        """Skips a rule that another server gives no occasion to test."""
        if not present:
            if self.own:
                pytest.fail(f"the suite's own server has not what the rule needs: {needed}")
            pytest.skip(f"this server has not what the rule needs: {needed}")


@dataclass(frozen=True)
class SharedTable:
    target: Target
    share: str
    schema: str
    name: str
    location: str | None

    @property
    def path(self) -> str:
        return f"shares/{self.share}/schemas/{self.schema}/tables/{self.name}"

    def request(self, method: str, action: str, capabilities: str | None = None, **options: Any) -> Answer:
        headers = {CAPABILITIES: capabilities} | options.pop("headers", {})
        return Answer(self.target.request(method, f"{self.path}{action}", headers=headers, **options))

    def version(self, **parameters: Any) -> Answer:
        return self.request("GET", "/version", params=parameters)

    def metadata(self, capabilities: str | None = None, **parameters: Any) -> Answer:
        return self.request("GET", "/metadata", capabilities, params=parameters)

    def query(self, capabilities: str | None = None, **body: Any) -> Answer:
        return self.request("POST", "/query", capabilities, json=body)

    def changes(self, capabilities: str | None = None, **parameters: Any) -> Answer:
        return self.request("GET", "/changes", capabilities, params=parameters)

    def truth(self) -> str:
        """Where the suite reads the table itself, or a skip."""
        if self.location is None:
            pytest.skip(f"the profile has no location for {self.share}.{self.schema}.{self.name}")
        return self.location


def load_target(profile: Path) -> Target:
    """The server that a profile names."""
    content = yaml.safe_load(profile.read_text(encoding="utf-8"))
    return Target(content["endpoint"].rstrip("/"), content["bearerToken"], content.get("roles", {}))


def assert_refused(response: requests.Response | Answer, status: int, code: str, *words: str) -> None:
    """An error of the wire: JSON with a code and a message that has these words in it."""
    response = response.response if isinstance(response, Answer) else response
    assert response.status_code == status, response.text
    body = response.json()
    assert set(body) == {"errorCode", "message"}
    assert body["errorCode"] == code
    for word in words:
        assert word in body["message"]
