"""The application: its commands, error messages and exit codes.

Exit codes: 0 success, 1 failure, 2 usage error (an option, a filter, a column), 130 interrupted, 143 terminated.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, NoReturn

import pyarrow as pa
import typer

from lakeport import __version__
from lakeport.cli.iceberg import clean, convert, verify
from lakeport.cli.sharing import recipients, schemas, shares
from lakeport.cli.sharing import tables as shared_tables
from lakeport.cli.sharing.listing import ls
from lakeport.cli.sharing.serve import serve
from lakeport.cli.sharing.sync import sync
from lakeport.cli.sql.command import sql
from lakeport.cli.tables.describe import files, history
from lakeport.cli.tables.export import export
from lakeport.cli.tables.maintain import checkpoint, optimize, restore, set_properties, vacuum
from lakeport.cli.tables.rows import changes, count, head
from lakeport.cli.tables.write import append, create, delete, merge, overwrite, update
from lakeport.errors import InvalidDataError, InvalidFilterError, LakeportError, visible

_DEBUG = "--debug"
_KILLED = 128
"""Shells report this plus the number of the signal that killed a program."""
_OPTIONS = {
    "pass enforce_retention=False": "pass --no-retention-check",
    "pass ignore_missing_files=True": "pass --ignore-missing-files",
    "(merge_schema does)": "(--merge-schema does)",
    "pass force=True": "pass --force",
    "pass full=True": "pass --full",
    "read it with access='dir'": "read it with --access dir",
    "drop cache or access='dir'": "drop --cache or --access dir",
    "allow it with merge_schema": "allow it with --merge-schema",
}

app = typer.Typer(
    help="Share, read, write and convert Delta tables.",
    epilog=f"Add {_DEBUG} anywhere on the line to see the traceback of a failure.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "Read tables": (ls, head, count, sql, files, history, changes, export, sync),
    "Write rows": (create, append, overwrite, delete, update, merge),
    "Maintain tables": (optimize, vacuum, restore, set_properties, checkpoint),
    "Mirror tables to Iceberg": (convert, verify, clean),
}
_SHARING: dict[typer.Typer, str] = {
    shares.app: "share",
    shared_tables.app: "table",
    recipients.app: "recipient",
    recipients.grant_app: "grant",
}
for panel, commands in _PANELS.items():
    for command in commands:
        app.command("set" if command is set_properties else None, rich_help_panel=panel)(command)
app.add_typer(schemas.app, name="schema", rich_help_panel="Read tables")
app.command(rich_help_panel="Share tables")(serve)
for group, name in _SHARING.items():
    app.add_typer(group, name=name, rich_help_panel="Share tables")


@app.callback(invoke_without_command=True)
def lakeport(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print Lakeport's version and exit.")] = False,
) -> None:
    """Share, read, write and convert Delta tables."""
    if version:
        typer.echo(f"lakeport {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
    else:
        return
    raise typer.Exit


def main() -> NoReturn:
    """The console script. SIGTERM is handled like an interrupt, so that partial output is removed."""
    terminated: list[int] = []

    def terminate(number: int, _: object) -> NoReturn:
        terminated.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, terminate)
    warnings.showwarning = _tell_warning
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the output is gone: silently discard what is still buffered.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except KeyboardInterrupt:
        code = _KILLED + signal.SIGINT
    sys.exit(_KILLED + terminated[0] if terminated else code)


def _tell_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning without the source line that raised it."""
    print(f"lakeport: warning: {_one_line(str(message))}", file=sys.stderr)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; print a failure to stderr."""
    try:
        code = app([a for a in arguments if a != _DEBUG], prog_name="lakeport", standalone_mode=False)
    except BrokenPipeError:
        raise
    except Exception as error:
        if _DEBUG in arguments:
            traceback.print_exc()
        else:
            print(f"lakeport: {_told(error)}", file=sys.stderr)
        return _exit_code(error)
    return code if isinstance(code, int) else 0


def _exit_code(error: Exception) -> int:
    if isinstance(error, typer.TyperException):
        return error.exit_code
    # Arrow's errors and those about rows are ValueErrors too, but not usage errors.
    return 2 if isinstance(error, ValueError) and not isinstance(error, pa.ArrowException | InvalidDataError) else 1


def _told(error: Exception) -> str:
    if isinstance(error, typer.TyperException):
        return f"{_one_line(error.format_message())} (see lakeport --help)"
    if isinstance(error, InvalidFilterError):
        return str(error)  # its other lines mark the position
    if isinstance(error, LakeportError | ValueError) and not isinstance(error, pa.ArrowException):
        return _with_options(_one_line(str(error)))
    if isinstance(error, OSError):
        return _one_line(f"{error.strerror or error}{f' [{error.filename}]' if error.filename else ''}")
    return f"unexpected {type(error).__name__}: {_one_line(str(error))} (run with {_DEBUG} for a traceback)"


def _with_options(text: str) -> str:
    """Replace Python parameters in a message with the options of the command line."""
    for parameter, option in _OPTIONS.items():
        text = text.replace(parameter, option)
    return text


def _one_line(text: str) -> str:
    return visible(" ".join(text.split()))
