"""Table files on a local disk, downloaded by signed URL."""

from lakeport.server.files.app import FilesApp

__all__ = ["FilesApp"]
