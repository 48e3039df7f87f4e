"""What is asked of AWS, as its own library sends it to a local server."""

import json
from collections.abc import Iterator

import pytest

from lakeport.errors import CatalogError, SharingError
from lakeport.locations import parse_location
from lakeport.server.credentials.aws import AwsVendor, session_policy
from lakeport.server.credentials.cloud_vendor import AwsOptions, Grant, Granted, parse_options
from tests.server.endpoints import Answer, Endpoint, Received, endpoint

PLACE = parse_location("s3://bucket/data/t1")
ROLE = "arn:aws:iam::123456789012:role/reader"
KEYS = {"aws_access_key_id": "server", "aws_secret_access_key": "secret", "aws_region": "eu-west-1"}

_SESSION = """<{0}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{0}Result><Credentials>
<AccessKeyId>a</AccessKeyId><SecretAccessKey>b</SecretAccessKey><SessionToken>c</SessionToken>
<Expiration>2027-01-15T08:00:00Z</Expiration></Credentials></{0}Result></{0}Response>"""


@pytest.fixture
def sts() -> Iterator[Endpoint]:
    def answer(request: Received) -> Answer:
        return 200, _SESSION.format(request.form["Action"]).encode()

    with endpoint(answer) as place:
        yield place


def vend(options: AwsOptions, storage: dict[str, str], seconds: int = 3600) -> Granted:
    name = "lakeport-6c28ff2a-1b2f-4c8e-9e75-2a57d2b1e3c4"
    return AwsVendor(options).vend(Grant(place=PLACE, storage=storage, seconds=seconds, now=0, name=name))


def test_a_role_is_assumed_with_the_policy_the_external_id_and_a_name_for_the_audit(sts: Endpoint) -> None:
    granted = vend(AwsOptions(role_arn=ROLE, external_id="our secret word", sts_endpoint=sts.url), KEYS)
    assert granted.expires == 1_800_000_000
    (request,) = sts.received
    assert request.form == {
        "Action": "AssumeRole",
        "Version": "2011-06-15",
        "RoleArn": ROLE,
        "RoleSessionName": "lakeport-6c28ff2a-1b2f-4c8e-9e75-2a57d2b1e3c4",
        "ExternalId": "our secret word",
        "DurationSeconds": "3600",
        "Policy": session_policy(PLACE, "eu-west-1", None),
    }
    assert "Credential=server/" in request.headers["Authorization"]
    assert "/eu-west-1/sts/" in request.headers["Authorization"]


def test_without_a_role_a_federation_token_has_the_same_policy(sts: Endpoint) -> None:
    vend(AwsOptions(sts_endpoint=sts.url), KEYS)
    assert sts.received[0].form == {
        "Action": "GetFederationToken",
        "Version": "2011-06-15",
        "Name": "lakeport-6c28ff2a-1b2f-4c8e-9e75",
        "DurationSeconds": "3600",
        "Policy": session_policy(PLACE, "eu-west-1", None),
    }


@pytest.mark.parametrize(
    ("seconds", "of_a_role", "of_a_federation"),
    [(60, "900", "900"), (7200, "7200", "7200"), (10**6, "43200", "129600")],
)
def test_the_time_is_within_what_the_service_takes(
    sts: Endpoint, seconds: int, of_a_role: str, of_a_federation: str
) -> None:
    vend(AwsOptions(role_arn=ROLE, sts_endpoint=sts.url), KEYS, seconds)
    vend(AwsOptions(sts_endpoint=sts.url), KEYS, seconds)
    assert [request.form["DurationSeconds"] for request in sts.received] == [of_a_role, of_a_federation]


def test_the_keys_of_a_storage_with_its_own_endpoint_are_not_sent_to_amazon(sts: Endpoint) -> None:
    vend(AwsOptions(role_arn=ROLE), {**KEYS, "endpoint": sts.url})
    assert len(sts.received) == 1


def test_the_keys_may_come_from_the_environment(sts: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ACCESS_KEY_ID": "of-env", "SECRET_ACCESS_KEY": "x", "SESSION_TOKEN": "y"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    vend(AwsOptions(role_arn=ROLE, sts_endpoint=sts.url), {})
    assert "Credential=of-env/" in sts.received[0].headers["Authorization"]
    assert sts.received[0].headers["X-Amz-Security-Token"] == "y"


def test_the_policy_reads_and_lists_one_prefix_and_no_more() -> None:
    assert json.loads(session_policy(PLACE, "eu-west-1", None)) == {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": ["s3:GetObject", "s3:GetObjectVersion"],
                "Resource": "arn:aws:s3:::bucket/data/t1/*",
            },
            {
                "Effect": "Allow",
                "Action": ["s3:ListBucket"],
                "Resource": "arn:aws:s3:::bucket",
                "Condition": {"StringLike": {"s3:prefix": ["data/t1/*"]}},
            },
            {"Effect": "Allow", "Action": ["s3:GetBucketLocation"], "Resource": "arn:aws:s3:::bucket"},
        ],
    }


def test_a_key_for_encrypted_objects_may_be_used_through_s3_only() -> None:
    key = "arn:aws:kms:eu-west-1:123456789012:key/1"
    assert json.loads(session_policy(PLACE, "eu-west-1", key))["Statement"][3] == {
        "Effect": "Allow",
        "Action": ["kms:Decrypt"],
        "Resource": key,
        "Condition": {"StringLike": {"kms:ViaService": "s3.*"}},
    }


def test_signs_that_a_policy_would_take_as_patterns_stand_for_themselves() -> None:
    text = session_policy(parse_location("s3://bucket/a*b/c?/${aws:username}"), "eu-west-1", None)
    assert '"arn:aws:s3:::bucket/a${*}b/c${?}/${$}{aws:username}/*"' in text
    assert '["a${*}b/c${?}/${$}{aws:username}/*"]' in text


def test_a_whole_bucket_is_listed_without_a_condition() -> None:
    read, listed, _ = json.loads(session_policy(parse_location("s3://bucket"), "eu-west-1", None))["Statement"]
    assert read["Resource"] == "arn:aws:s3:::bucket/*"
    assert "Condition" not in listed


@pytest.mark.parametrize(("region", "partition"), [("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")])
def test_a_partition_of_amazon_has_its_own_names(region: str, partition: str) -> None:
    assert f'"arn:{partition}:s3:::bucket"' in session_policy(PLACE, region, None)


def test_a_policy_that_is_longer_than_the_service_takes_is_refused() -> None:
    with pytest.raises(SharingError, match=r"2,048 characters") as refused:
        session_policy(parse_location("s3://bucket/" + "x" * 900), "eu-west-1", None)
    assert refused.value.status == 400


ACCESS_POINT = "arn:aws:s3:eu-west-1:123456789012:accesspoint/orders"
ALIAS = "orders-0123456789abcdefghijklmnopqr-s3alias"


def test_the_policy_of_an_access_point_has_its_arn() -> None:
    place = parse_location(f"s3://{ALIAS}/data/t1")
    policy = json.loads(session_policy(place, "eu-west-1", None, {ALIAS: ACCESS_POINT}))
    assert [statement["Resource"] for statement in policy["Statement"]] == [
        f"{ACCESS_POINT}/object/data/t1/*",
        ACCESS_POINT,
        ACCESS_POINT,
    ]


def test_an_access_point_whose_arn_is_not_known_is_refused() -> None:
    with pytest.raises(SharingError, match=r"aws\.accessPoints") as failed:
        session_policy(parse_location(f"s3://{ALIAS}/data/t1"), "eu-west-1", None, {})
    assert failed.value.status == 400


def test_access_points_are_configured_by_their_aliases() -> None:
    assert parse_options({"aws": {"accessPoints": {ALIAS: ACCESS_POINT}}}).aws.access_points == {ALIAS: ACCESS_POINT}
    with pytest.raises(CatalogError, match="temporaryCredentials"):
        parse_options({"aws": {"accessPoints": {ALIAS: "arn:aws:s3:::bucket"}}})
