"""Spark finds the format `lakeport` by the name of this module."""

from lakeport.spark.formats.sources import LakeportSource as DefaultSource

__all__ = ["DefaultSource"]
