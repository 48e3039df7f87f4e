"""The application: its commands, error messages and exit codes.

Exit codes: 0 success, 1 failure, 2 usage error (an option, a filter, a column), 130 interrupted, 143 terminated.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, NoReturn

import pyarrow as pa
import typer
from typer.core import TyperGroup
from typer.main import get_command

from lakeport.cli.parameters import HELP_OPTIONS, adjust_parameters
from lakeport.errors import InvalidDataError, InvalidFilterError, LakeportError, visible
from lakeport.version import __version__

_DEBUG = "--debug"
_KILLED = 128
"""Shells report this plus the number of the signal that killed a program."""
_OPTIONS = {
    "pass enforce_retention=False": "pass --no-retention-check",
    "pass ignore_missing_files=True": "pass --ignore-missing-files",
    "pass force=True": "pass --force",
    "pass full=True": "pass --full",
    "pass merge_schema=True": "pass --merge-schema",
    "drop cache or": "drop --cache or",
    "zorder_by": "--zorder-by",
    "cluster_by": "--cluster-by",
    "access='dir'": "--access dir",
    "access='url'": "--access url",
}

_PANELS = {
    "Read tables": {
        "ls": "lakeport.cli.sharing.listing",
        "head": "lakeport.cli.tables.rows",
        "count": "lakeport.cli.tables.rows",
        "sql": "lakeport.cli.sql.command",
        "files": "lakeport.cli.tables.describe",
        "history": "lakeport.cli.tables.describe",
        "changes": "lakeport.cli.tables.rows",
        "export": "lakeport.cli.tables.export",
        "sync": "lakeport.cli.sharing.sync",
        "schema": "lakeport.cli.sharing.schemas",
    },
    "Write rows": dict.fromkeys(
        ("create", "append", "overwrite", "delete", "update", "merge"), "lakeport.cli.tables.write"
    ),
    "Maintain tables": dict.fromkeys(
        ("optimize", "vacuum", "restore", "set", "checkpoint"), "lakeport.cli.tables.maintain"
    ),
    "Mirror tables to Iceberg": dict.fromkeys(("convert", "verify", "clean"), "lakeport.cli.iceberg"),
    "Share tables": {
        "serve": "lakeport.cli.sharing.serve",
        "share": "lakeport.cli.sharing.shares",
        "table": "lakeport.cli.sharing.tables",
        "recipient": "lakeport.cli.sharing.recipients",
        "grant": "lakeport.cli.sharing.recipients",
    },
}
"""The commands, as `lakeport --help` lists them, and their modules. Only the command that runs is imported."""
_OTHER_NAMES = {
    "set": "set_properties",
    "grant": "grant_app",
    **dict.fromkeys(("schema", "share", "table", "recipient"), "app"),
}


def application(arguments: Sequence[str]) -> TyperGroup:
    """The application with the command that the arguments begin with; without one, with all commands."""
    app = typer.Typer(
        help="Share, read, write and convert Delta tables.",
        epilog=f"Add {_DEBUG} anywhere on the line to see the traceback of a failure.",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": HELP_OPTIONS},
    )
    app.callback(invoke_without_command=True)(lakeport)
    called = arguments[0] if arguments else None
    is_known = any(called in commands for commands in _PANELS.values())
    for panel, commands in _PANELS.items():
        for name, module in commands.items():
            if name == called or not is_known:
                command = getattr(import_module(module), _OTHER_NAMES.get(name, name))
                if isinstance(command, typer.Typer):
                    app.add_typer(command, name=name, rich_help_panel=panel)
                else:
                    app.command(name, rich_help_panel=panel)(command)
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    adjust_parameters(group)
    return group


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
    warnings.showwarning = _print_warning
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


def _print_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning without the source line that raised it."""
    print(f"lakeport: warning: {_one_line(str(message))}", file=sys.stderr)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; print a failure to stderr."""
    try:
        given = [a for a in arguments if a != _DEBUG]
        code = application(given)(given, prog_name="lakeport", standalone_mode=False)
    except BrokenPipeError:
        raise
    except Exception as error:
        if _DEBUG in arguments:
            traceback.print_exc()
        else:
            print(f"lakeport: {_describe_error(error)}", file=sys.stderr)
        return _exit_code(error)
    return code if isinstance(code, int) else 0


def _exit_code(error: Exception) -> int:
    if isinstance(error, typer.TyperException):
        return error.exit_code
    # Arrow's errors and those about rows are ValueErrors too, but not usage errors.
    return 2 if isinstance(error, ValueError) and not isinstance(error, pa.ArrowException | InvalidDataError) else 1


def _describe_error(error: Exception) -> str:
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
