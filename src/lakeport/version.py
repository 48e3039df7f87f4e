"""The version of Lakeport, for people and for the tables that it writes."""

__version__ = "0.1.0"
