"""Iceberg mirrors of Delta tables: the same data files, for Iceberg readers.

    from lakeport import iceberg
    iceberg.convert("orders")  # create or update the mirror
    iceberg.convert("orders", format_version=3, out="s3://bucket/mirrors/orders")
    iceberg.verify("orders", rows=True).is_equal
    iceberg.clean("orders")  # list what can be deleted; dry_run=False deletes it

A mirror follows its table version by version; data files are shared, deletion vectors become delete files.
"""

from lakeport.iceberg.cleaning import Cleaning, ExpiredSnapshot, clean
from lakeport.iceberg.convert import Conversion, convert
from lakeport.iceberg.verification.verify import Difference, Verification, verify

__all__ = [
    "Cleaning", "Conversion", "Difference", "ExpiredSnapshot", "Verification", "clean", "convert", "verify",
]  # fmt: skip
