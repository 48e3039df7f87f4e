"""Spark finds the format `deltaSharing` by this module's name."""

from lakeport.spark.formats.sources import DeltaSharingSource as DefaultSource

__all__ = ["DefaultSource"]
