"""The examples of the recipient's guide work, against a server that shares what they name."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from lakeport import tables
from lakeport.cli.app import run
from tests.client.shares import sharing_tables
from tests.conftest import ROOT

pytest.importorskip("duckdb")
pytest.importorskip("pandas")

GUIDE = ROOT / "docs" / "recipients.md"
EXAMPLE = re.compile(r"^```(py|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_guide_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tables.create("mine", {"id": [1, 2]})
    names: dict[str, Any] = {}
    ran = 0
    with sharing_tables(tmp_path):
        for language, text in EXAMPLE.findall(GUIDE.read_text()):
            if language == "py":
                exec(compile(text, GUIDE, "exec"), names)
                ran += 1
                continue
            for line in text.splitlines():
                if line.startswith("lakeport "):
                    assert run(shlex.split(line, comments=True)[1:]) == 0, line
                    ran += 1
    assert ran > 10
