"""Variant values: decoding their bytes, and shredding into columns.

May import `schema` and `values`.
"""

from lakeport.kernel.variant.decoding import decode_variant, format_variant_json
from lakeport.kernel.variant.shredding import encode_variant, rebuild_variant

__all__ = ["decode_variant", "encode_variant", "format_variant_json", "rebuild_variant"]
