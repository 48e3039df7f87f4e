"""The suite's own server: all roles, behind two recipients."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lakeport import tables
from lakeport.engine import default_engine
from lakeport.server.catalog.index import token_digest
from lakeport.server.catalog.model import BearerToken, CatalogContent, Recipient, Share, Table
from lakeport.testing.builder import TableBuilder, struct
from tests.conformance.roles import FEED, numbers, write_roles
from tests.conformance.target import Target
from tests.server.endpoints import Answer as StsAnswer
from tests.server.endpoints import Received, endpoint
from tests.server.running import running

TOKEN, OTHER_TOKEN, EXPIRED_TOKEN = "token of ann", "token of bob", "an old token of ann"

DAMAGED_FILES = 3000
"""Files of the table `damaged` that are told before the failure: so many that the answer has begun."""

_SHARE, _SCHEMA = "Conformance", "Roles"
_BUCKET = "s3://bucket/tables/orders"
_SESSION = """<{0}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{0}Result><Credentials>
<AccessKeyId>key id</AccessKeyId><SecretAccessKey>secret</SecretAccessKey><SessionToken>session</SessionToken>
<Expiration>2096-01-15T08:00:00Z</Expiration></Credentials></{0}Result></{0}Response>"""
_KEYS = {"aws_access_key_id": "server", "aws_secret_access_key": "secret", "aws_region": "eu-west-1"}


@contextmanager
def served_roles(directory: Path) -> Iterator[Target]:
    """Writes the tables and serves them."""
    locations = write_roles(directory)
    locations |= {role: str(directory / role) for role in ("gone", "growing")}
    tables.create(locations["growing"], numbers(0, 3), properties=FEED)
    locations["damaged"] = _write_damaged(directory / "damaged")
    content = _catalog(locations)

    def session(request: Received) -> StsAnswer:
        return 200, _SESSION.format(request.form["Action"]).encode()

    with (
        endpoint(session) as sts,
        running(
            content,
            evaluate_predicate_hints=True,
            async_query_after_seconds=0,
            temporary_credentials={"aws": {"stsEndpoint": sts.url}},
        ) as server,
    ):
        roles = {role: {"table": f"{_SHARE}.{_SCHEMA}.{role}", "location": at} for role, at in locations.items()}
        roles["directory"] = {"table": f"{_SHARE}.{_SCHEMA}.directory", "location": _BUCKET}
        roles["unshared"] = {"table": "hidden.secrets.plain"}
        with server.session as http:
            yield Target(server.endpoint, TOKEN, roles, own=True, session=http)


def _write_damaged(path: Path) -> str:
    """A table that can be read, but for what its commit 1 changed; the commit before it has many files."""
    table = TableBuilder(default_engine(), str(path), struct(id="long"), properties=FEED)
    file = {"partitionValues": {}, "size": 7, "modificationTime": 1, "dataChange": True}
    table.create(*({"add": {"path": f"{number}.parquet", **file}} for number in range(DAMAGED_FILES)))
    table.commit({"txn": {"appId": "an application", "version": 1}})
    table.commit({"txn": {"appId": "an application", "version": 2}})
    table.checkpoint()
    Path(table.log_file(f"{1:020d}.json")).write_text('{"add": {"path": 5}}\n')
    return table.root


def _catalog(locations: dict[str, str]) -> CatalogContent:
    shares = (
        Share(
            id="7a1c3f0e-0001-4000-8000-000000000001",
            name=_SHARE,
            display_name="Conformance of servers",
            comment="tables for every rule",
            properties={"owner": "tests"},
        ),
        Share(id="7a1c3f0e-0001-4000-8000-000000000002", name="other.share"),
        Share(id="7a1c3f0e-0001-4000-8000-000000000003", name="Zoo"),
        Share(id="7a1c3f0e-0001-4000-8000-000000000004", name="hidden"),
    )
    own = [
        Table(
            id=f"id-of-{role}",
            share=_SHARE,
            schema=_SCHEMA,
            name=role,
            location=location,
            history_shared=role != "latest_only",
            start_version=2 if role == "later" else 0,
        )
        for role, location in locations.items()
    ]
    others = [
        Table(id="id-of-zebra", share="Zoo", schema="africa", name="zebra", location=locations["plain"]),
        Table(id="id-of-emu", share="Zoo", schema="australia", name="emu", location=locations["plain"]),
        Table(id="id-of-secrets", share="hidden", schema="secrets", name="plain", location=locations["plain"]),
        Table(
            id="id-of-directory",
            share=_SHARE,
            schema=_SCHEMA,
            name="directory",
            location=_BUCKET,
            auxiliary_locations=(f"{_BUCKET}-more",),
            access_modes=("url", "dir"),
            history_shared=True,
            storage=_KEYS,
        ),
    ]
    schemas = {(table.share, table.schema) for table in [*own, *others]} | {("other.share", "bare"), ("Zoo", "asia")}
    past = int(time.time() * 1000) - 1000
    ann = (BearerToken(digest=token_digest(TOKEN)), BearerToken(digest=token_digest(EXPIRED_TOKEN), expires=past))
    return CatalogContent(
        shares=shares,
        schemas=tuple(sorted(schemas)),
        tables=(*own, *others),
        recipients=(
            Recipient(id="ann", name="ann", tokens=ann, grants=(_SHARE, "other.share", "Zoo")),
            Recipient(
                id="bob", name="bob", tokens=(BearerToken(digest=token_digest(OTHER_TOKEN)),), grants=(_SHARE, "Zoo")
            ),
        ),
    )
