"""The command line, `lakeport COMMAND TARGET`: one module per group of commands."""

import sys
from typing import NoReturn

_INTERRUPTED = 130


def main() -> NoReturn:
    """The console script. An interrupt while the commands are loaded is not told as a failure."""
    try:
        from lakeport.cli.app import main as run
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    run()


__all__ = ["main"]
