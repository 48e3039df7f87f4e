"""The recipient's side of sharing: from a profile to rows."""

from lakeport.client.auth import GivenProfile
from lakeport.client.opening import AccessMode, ClientChoices, ClientOptions, open_server, open_table
from lakeport.client.rest.server import SharingServer

__all__ = ["AccessMode", "ClientChoices", "ClientOptions", "GivenProfile", "SharingServer", "open_server", "open_table"]
