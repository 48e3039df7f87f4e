"""The examples in the documents work: their Python is run, and so are their command lines that begin with `lakeport`.

All examples of a document share one folder and one namespace, and are run in order. Python that begins with a comment
such as `# worker.py` is a file of that name.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakeport.cli.app import run
from tests.conftest import ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
_EXAMPLE = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\w+\.py)\n")
_COMMAND = "$ lakeport "


@dataclass(frozen=True)
class Example:
    language: str
    text: str
    document: Path
    line: int
    """Where it begins, counted from 0."""

    def run(self, names: dict[str, Any]) -> None:
        if self.language == "console":
            self._run_commands()
        elif file := _FILE.match(self.text):
            Path(file[1]).write_text(self.text)
        else:
            exec(compile("\n" * self.line + self.text, self.document, "exec"), names)

    def _run_commands(self) -> None:
        for line in self.text.splitlines():
            if line.startswith(_COMMAND):
                assert run(shlex.split(line.removeprefix(_COMMAND), comments=True)) == 0, line


def examples_in(document: Path) -> Iterator[Example]:
    text = document.read_text()
    for found in _EXAMPLE.finditer(text):
        yield Example(found[1], found[2], document, text.count("\n", 0, found.start(2)))


@pytest.mark.parametrize(
    "document", [d for d in DOCUMENTS if any(examples_in(d))], ids=lambda path: str(path.relative_to(ROOT))
)
def test_the_examples_of_a_document_run(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for example in examples_in(document):
        example.run(names)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_links_of_a_document_lead_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text())
    assert [target for target in targets if not (document.parent / target).exists()] == []
