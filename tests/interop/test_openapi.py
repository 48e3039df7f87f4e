"""The OpenAPI document and the server agree: schemathesis asks for everything that the document allows, and for more.

``LAKEPORT_SCHEMATHESIS_EXAMPLES=1000 pytest tests/interop/test_openapi.py`` tries for longer.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakeport import tables
from tests.conftest import missing
from tests.server.running import TOKEN, Running, running, sharing

EXAMPLES = os.environ.get("LAKEPORT_SCHEMATHESIS_EXAMPLES", "20")
SEED = "4"
FIXED = """
[parameters]
"path.share" = "sales"
"path.schema" = "eu"
"path.table" = "orders"
"path.queryId" = "{query}"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    path = tmp_path_factory.mktemp("tables") / "orders"
    rows = pa.table({"id": [1, 2], "day": ["a", "b"]})
    tables.create(str(path), rows, partition_by=["day"], properties={"delta.enableChangeDataFeed": "true"})
    tables.append(str(path), rows)
    content = sharing({"sales.eu.orders": path}, history_shared=True)
    with running(content, evaluate_predicate_hints=True, async_query_after_seconds=0) as started:
        yield started


def checked(server: Running, folder: Path, settings: str) -> str:
    """What schemathesis tells. It knows of no request that makes sense to a schema but not to a server, as is one with
    a token that nobody has made: that such are accepted is not checked."""
    program = Path(sys.executable).with_name("schemathesis")
    if not program.exists():
        missing("schemathesis is not installed: pip install schemathesis")
    (folder / "schemathesis.toml").write_text(settings)
    command = [
        str(program),
        "--config-file",
        "schemathesis.toml",
        "run",
        f"{server.endpoint}/openapi.json",
        "--no-color",
    ]
    command += ["--header", f"Authorization: Bearer {TOKEN}", "--checks", "all", "--seed", SEED]
    command += ["--exclude-checks", "positive_data_acceptance", "--max-examples", EXAMPLES, "--continue-on-failure"]
    command += ["--phases", "examples,coverage,fuzzing", "--request-timeout", "20"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout[-10_000:] + ended.stderr[-2000:]
    return ended.stdout


def test_requests_on_a_table_are_answered_as_the_document_says(server: Running, tmp_path: Path) -> None:
    headers = {"delta-sharing-capabilities": "asyncquery=true"}
    pending = server.post("shares/sales/schemas/eu/tables/orders/query", headers=headers)
    told = checked(server, tmp_path, FIXED.format(query=json.loads(pending.text)["queryStatus"]["queryId"]))
    assert "Tested: 12" in told
    assert "404" not in told  # its warning if nothing but refusals was seen


def test_requests_with_any_names_are_answered_as_the_document_says(server: Running, tmp_path: Path) -> None:
    assert "Tested: 12" in checked(server, tmp_path, "")


def test_nothing_in_the_document_is_answered_without_a_token(server: Running) -> None:
    document = server.get("openapi.json", token=None).json()
    for path, methods in document["paths"].items():
        for method in methods:
            where = re.sub(r"\{\w+\}", "x", path).removeprefix("/")
            for token in (None, "wrong"):
                assert server.request(method.upper(), where, token=token).status_code == 401
