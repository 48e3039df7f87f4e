"""The capabilities header, by its section in the protocol."""

import pytest

from lakeport.sharing.capabilities import Capabilities, format_capabilities, parse_capabilities


@pytest.mark.parametrize("header", [None, "", ";", "responseformat=", "responseformat", "unknown=1", "=delta"])
def test_without_a_format_it_is_parquet(header: str | None) -> None:
    assert parse_capabilities(header) == Capabilities(response_formats=("parquet",))


def test_keys_and_values_have_no_case() -> None:
    header = (
        " ResponseFormat = Parquet , DELTA,delta ;readerFeatures=deletionVectors,columnMapping;"
        "includeEndStreamAction=TRUE;asyncQuery=True;accessModes=url,Dir;somethingNew=1;"
    )
    assert parse_capabilities(header) == Capabilities(
        response_formats=("parquet", "delta"),
        reader_features=frozenset({"deletionvectors", "columnmapping"}),
        include_end_stream_action=True,
        async_query=True,
        access_modes=("url", "dir"),
    )


@pytest.mark.parametrize("value", ["false", "1", "yes", "", "true,false"])
def test_only_true_is_true(value: str) -> None:
    parsed = parse_capabilities(f"includeendstreamaction={value};asyncquery={value}")
    assert not parsed.include_end_stream_action
    assert not parsed.async_query


def test_of_a_key_that_comes_twice_the_last_counts() -> None:
    assert parse_capabilities("responseformat=parquet;responseformat=delta").response_formats == ("delta",)


def test_an_answer_says_its_format_in_lower_case() -> None:
    answer = Capabilities(response_formats=("delta",), include_end_stream_action=True)
    assert format_capabilities(answer) == "responseformat=delta;includeendstreamaction=true"
    assert format_capabilities(Capabilities()) == "responseformat=parquet"


def test_what_is_written_is_read() -> None:
    capabilities = Capabilities(
        response_formats=("delta", "parquet"),
        reader_features=frozenset({"v2checkpoint", "deletionvectors"}),
        include_end_stream_action=True,
        async_query=True,
        access_modes=("dir",),
    )
    assert parse_capabilities(format_capabilities(capabilities)) == capabilities
