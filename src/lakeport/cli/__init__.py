"""The command line, `lakeport COMMAND TARGET`: one module per group of commands."""

import sys
from typing import NoReturn

from lakeport.version import __version__

_INTERRUPTED = 130


def main() -> NoReturn:
    """The console script. Exit quietly if interrupted while the commands load."""
    if sys.argv[1:] == ["--version"]:
        print(f"lakeport {__version__}")
        sys.exit()
    try:
        from lakeport.cli.app import main as run
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    run()


__all__ = ["main"]
