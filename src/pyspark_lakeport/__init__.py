"""Spark finds the format `lakeport` by this module's name."""

from lakeport.spark.formats import LakeportSource as DefaultSource

__all__ = ["DefaultSource"]
