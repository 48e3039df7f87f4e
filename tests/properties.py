"""The properties by which tables get a feature."""

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
TRACKING = {"delta.enableRowTracking": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
