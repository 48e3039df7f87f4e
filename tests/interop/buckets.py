"""What tests of object stores share."""

from typing import Any

from tests.interop.servers import Bucket

CITIES = ["Oslo", "São Paulo", "a b", "100%", "50%20", "x#y?z", "10:30", "a+b&c", "北京"]


def options(bucket: Bucket, **changed: Any) -> dict[str, Any]:
    """The bucket's options as Lakeport takes them: those of the HTTP client beside the others."""
    flat = {name: value for name, value in bucket.options.items() if name != "client_options"}
    return flat | bucket.options["client_options"] | changed
