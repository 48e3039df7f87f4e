"""AWS: STS sessions whose policy allows reading one prefix."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import msgspec

from lakeport.errors import SharingError
from lakeport.locations import Location
from lakeport.server.credentials.cloud_vendor import AwsOptions, Grant, Granted, StoreOptions
from lakeport.sharing.models import AwsTempCredentials

_LONGEST_POLICY = 2048
_SHORTEST_SECONDS = 900
_LONGEST_ROLE_SECONDS = 12 * 3600
_LONGEST_FEDERATION_SECONDS = 36 * 3600
_LONGEST_FEDERATION_NAME = 32

_ACCESS_POINT_ALIAS = "-s3alias"

_POLICY_SIGN = re.compile(r"[*?$]")


class AwsVendor:
    """Assumes the role if there is one, else requests a federation token; sessions last at least 15 minutes."""

    def __init__(self, options: AwsOptions) -> None:
        self._options = options

    def vend(self, grant: Grant) -> Granted:
        storage = StoreOptions(grant.storage, ("aws_",))
        region = self._options.region or storage.get("region", "default_region") or "us-east-1"
        policy = session_policy(grant.place, region, self._options.kms_key_arn, self._options.access_points)
        with closing(self._open_sts(storage, region)) as sts:
            answer = self._assume_role(sts, grant, policy) if self._options.role_arn else _federate(sts, grant, policy)
        keys = answer["Credentials"]
        temporary = AwsTempCredentials(
            access_key_id=keys["AccessKeyId"],
            secret_access_key=keys["SecretAccessKey"],
            session_token=keys["SessionToken"],
        )
        return Granted(temporary, keys["Expiration"].timestamp())

    def _open_sts(self, storage: StoreOptions, region: str) -> Any:
        import boto3.session
        from botocore.config import Config

        session = boto3.session.Session(  # a new one each time: sessions are not thread-safe
            aws_access_key_id=storage.get("access_key_id"),
            aws_secret_access_key=storage.get("secret_access_key"),
            aws_session_token=storage.get("session_token", "token"),
        )
        return session.client(
            "sts",
            region_name=region,
            endpoint_url=self._options.sts_endpoint or storage.get("endpoint", "endpoint_url"),
            config=Config(connect_timeout=5, read_timeout=15, retries={"mode": "standard", "total_max_attempts": 3}),
        )

    def _assume_role(self, sts: Any, grant: Grant, policy: str) -> Any:
        external = {"ExternalId": self._options.external_id} if self._options.external_id else {}
        return sts.assume_role(
            RoleArn=self._options.role_arn,
            RoleSessionName=grant.name,
            DurationSeconds=min(max(grant.seconds, _SHORTEST_SECONDS), _LONGEST_ROLE_SECONDS),
            Policy=policy,
            **external,
        )


def _federate(sts: Any, grant: Grant, policy: str) -> Any:
    return sts.get_federation_token(
        Name=grant.name[:_LONGEST_FEDERATION_NAME],
        DurationSeconds=min(max(grant.seconds, _SHORTEST_SECONDS), _LONGEST_FEDERATION_SECONDS),
        Policy=policy,
    )


def session_policy(
    place: Location, region: str, kms_key_arn: str | None, access_points: Mapping[str, str] | None = None
) -> str:
    """Allow reading and listing everything below the prefix, and nothing else, whatever the role allows.

    Raises `SharingError` if the policy is too long for STS, or for an access point whose ARN is not known: AWS does not
    accept its alias in a policy.
    """
    bucket = (access_points or {}).get(place.bucket) or _bucket_arn(place.bucket, region)
    objects = f"{bucket}/object" if ":accesspoint/" in bucket else bucket
    below = _escape(place.prefix) + "*"
    # Without the trailing `/`, the prefix of `t1` would also list the names in `t10`.
    listed = {"Condition": {"StringLike": {"s3:prefix": [below]}}} if place.segments else {}
    statements: list[dict[str, Any]] = [
        _allow(["s3:GetObject", "s3:GetObjectVersion"], f"{objects}/{below}"),
        _allow(["s3:ListBucket"], bucket) | listed,
        _allow(["s3:GetBucketLocation"], bucket),
    ]
    if kms_key_arn:
        only_s3 = {"Condition": {"StringLike": {"kms:ViaService": "s3.*"}}}
        statements.append(_allow(["kms:Decrypt"], kms_key_arn) | only_s3)
    policy = msgspec.json.encode({"Version": "2012-10-17", "Statement": statements}).decode()
    if len(policy) > _LONGEST_POLICY:
        raise SharingError(
            "the location is too long for temporary credentials: AWS takes policies of up to 2,048 characters; "
            "read the table by signed URLs, or ask the provider to move it",
            status=400,
            code="UNSUPPORTED_OPERATION",
        )
    return policy


def _allow(actions: list[str], resource: str) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": actions, "Resource": resource}


def _escape(text: str) -> str:
    """Escape the wildcards and variables of a policy."""
    return _POLICY_SIGN.sub(lambda sign: f"${{{sign[0]}}}", text)


def _bucket_arn(bucket: str, region: str) -> str:
    if bucket.endswith(_ACCESS_POINT_ALIAS):
        raise SharingError(
            "there are no temporary credentials for the access point of this table: ask its provider to add its ARN to "
            "temporaryCredentials.aws.accessPoints, or read the table by signed URLs",
            status=400,
            code="UNSUPPORTED_OPERATION",
        )
    return f"arn:{_partition(region)}:s3:::{bucket}"


def _partition(region: str) -> str:
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"
