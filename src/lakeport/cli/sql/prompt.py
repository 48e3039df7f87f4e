"""The prompt of `lakeport sql`: line editing with a history, and a few backslash commands."""

from __future__ import annotations

import os
import readline
import sqlite3
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from lakeport.cli.display import print_text
from lakeport.cli.sql.session import SqlSession
from lakeport.errors import LakeportError, visible

_HELP = r"""End SQL with a semicolon. Tables are share.schema.table, or Delta tables by quoted path: 'data/orders'.
\d        list the shared tables              \d TABLE  show the columns of a table
\?        show this help                      \q        quit"""
_LEAVE = frozenset({r"\q", "exit", "quit", ".exit", ".quit"})
_MOST_LINES = 10_000


def prompt(session: SqlSession, run: Callable[[str], None]) -> None:
    """Read and run statements until the end of the input. Failures are printed and do not end the prompt."""
    print_text(r"SQL over shared tables. Type \d to list them, \? for help, \q to quit.")
    history = Path("~/.lakeport_history").expanduser()
    with suppress(OSError):
        readline.read_history_file(history)
    readline.set_completer(_Completer(session).complete)
    readline.set_completer_delims(" \t\n,()=<>;'")
    readline.parse_and_bind("tab: complete")
    try:
        while (text := _read()) is not None:
            _answer(text, session, run)
    finally:
        _save(history)


def _read() -> str | None:
    """Read a statement, which may span lines, or a command; None at the end."""
    lines: list[str] = []
    while True:
        try:
            lines.append(input("   ...> " if lines else "lakeport> "))
        except EOFError:
            print()
            return None
        except KeyboardInterrupt:
            print()
            lines = []
            continue
        text = "\n".join(lines).strip()
        if text.lower() in _LEAVE:
            return None
        if not text or text.startswith(("\\", ".")):
            return text
        if sqlite3.complete_statement(text):
            return text


def _answer(text: str, session: SqlSession, run: Callable[[str], None]) -> None:
    command, _, name = text.partition(" ")
    try:
        if text.startswith(("\\", ".")) or not text:
            _command(command, name.strip(), session, run)
        else:
            run(text)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    except (LakeportError, OSError, ValueError) as error:
        print(visible(str(error)), file=sys.stderr)


def _command(command: str, name: str, session: SqlSession, run: Callable[[str], None]) -> None:
    match command:
        case "":
            return
        case r"\d" | ".tables" if not name:
            for table in session.catalog.names():
                print_text(table)
        case r"\d":
            run(f"DESCRIBE {name.rstrip(';')}")
        case r"\?" | ".help":
            print_text(_HELP)
        case _:
            raise ValueError(rf"unknown command {command}: type \? for help")


def _save(history: Path) -> None:
    """Save the history for its owner only: queries may contain secrets."""
    with suppress(OSError):
        os.close(os.open(history, os.O_WRONLY | os.O_CREAT, 0o600))
        readline.set_history_length(_MOST_LINES)
        readline.write_history_file(history)


class _Completer:
    """Completes table names, which are fetched on first use."""

    def __init__(self, session: SqlSession) -> None:
        self._session = session

    @cached_property
    def _names(self) -> list[str]:
        try:
            return sorted(self._session.catalog.names())
        except (LakeportError, OSError, ValueError):
            return []

    def complete(self, text: str, state: int) -> str | None:
        found = [name for name in self._names if text and name.lower().startswith(text.lower())]
        return found[state] if state < len(found) else None
