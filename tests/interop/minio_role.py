"""The role that MinIO's token service knows."""

ROLE = "arn:minio:iam:::role/any"  # MinIO has one role: that of the user who asks
