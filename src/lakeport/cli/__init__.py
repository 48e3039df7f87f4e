"""The command line, `lakeport COMMAND TARGET`: one module per group of commands."""

from lakeport.cli.app import main, run

__all__ = ["main", "run"]
