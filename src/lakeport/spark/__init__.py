"""Delta tables and shared tables in Spark."""

from lakeport.spark.session import session

__all__ = ["session"]
