"""Spark finds the format `deltaSharing` by the name of this module."""

from lakeport.spark.formats.sources import DeltaSharingSource as DefaultSource

__all__ = ["DefaultSource"]
