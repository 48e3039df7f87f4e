"""Delta tables and shared tables in Spark."""

from lakeport.spark.loading import explain, load
from lakeport.spark.session import session

__all__ = ["explain", "load", "session"]
