"""`python -m lakeport`."""

from lakeport.cli import main

main()
