"""The files of tables on a disk, for who has a signed URL."""

from lakeport.server.files.app import FilesApp

__all__ = ["FilesApp"]
