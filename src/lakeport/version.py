"""Lakeport's version, shown to users and recorded in the tables it writes."""

__version__ = "0.1.0"
