"""Temporary table credentials: read access to a table's directory, for clients that read the storage directly.

Protocol: Generate Temporary Table Credential.
"""

from lakeport.server.credentials.vendor import CredentialVendor

__all__ = ["CredentialVendor"]
