"""Runs the examples of a document: its Python, and its command lines that begin with `lakeport`.

    python -m tests.document_examples docs/kernel.md

All of them share the current directory and one namespace, and are run in order. Python that begins with a comment
such as `# worker.py` is a file of that name.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
        from lakeport.cli.app import run

        for line in self.text.splitlines():
            if line.startswith(_COMMAND):
                assert run(shlex.split(line.removeprefix(_COMMAND), comments=True)) == 0, line


def examples_in(document: Path) -> Iterator[Example]:
    text = document.read_text()
    for found in _EXAMPLE.finditer(text):
        yield Example(found[1], found[2], document, text.count("\n", 0, found.start(2)))


def main() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for example in examples_in(Path(sys.argv[1])):
        example.run(names)


if __name__ == "__main__":
    main()
