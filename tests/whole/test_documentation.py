"""The examples in the documents work, and their links lead somewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.document_examples import examples_in

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


@pytest.mark.parametrize(
    "document", [d for d in DOCUMENTS if any(examples_in(d))], ids=lambda path: str(path.relative_to(ROOT))
)
def test_the_examples_of_a_document_run(document: Path, tmp_path: Path) -> None:
    # In a process of their own: a JVM that Spark started earlier would keep its directory.
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "tests.document_examples", document]
    run = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_links_of_a_document_lead_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text())
    assert [target for target in targets if not (document.parent / target).exists()] == []
