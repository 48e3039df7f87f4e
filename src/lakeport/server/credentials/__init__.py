"""Temporary table credentials: read access to the directory of a table, for readers that go to the storage themselves.

Protocol: Generate Temporary Table Credential.
"""

from lakeport.server.credentials.vendor import CredentialVendor

__all__ = ["CredentialVendor"]
