"""The recipient's side of sharing: from a profile to rows."""

from lakeport.client.auth.profiles import GivenProfile
from lakeport.client.opening import open_server, open_shared, open_table
from lakeport.client.options import ClientOptions
from lakeport.client.rest.server import SharingServer

__all__ = ["ClientOptions", "GivenProfile", "SharingServer", "open_server", "open_shared", "open_table"]
