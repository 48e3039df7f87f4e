"""The command line, `lakeport COMMAND TARGET`: one module per group of commands."""

import sys
from typing import NoReturn

_INTERRUPTED = 130


def main() -> NoReturn:
    """The console script. Exit quietly if interrupted while the commands load."""
    try:
        from lakeport.cli.app import main as run
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    run()


__all__ = ["main"]
