"""The sharing server: Delta tables for recipients, over the Delta Sharing protocol."""
