"""Shares, recipients and grants, and where they are stored: YAML or a database."""
