"""The data sources that Spark calls by name, and batch reads.

May import all rooms of `spark`.
"""
