"""Spark finds the format `deltaSharing` by this module's name."""

from lakeport.spark.formats import DeltaSharingSource as DefaultSource

__all__ = ["DefaultSource"]
