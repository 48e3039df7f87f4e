"""The `delta-sharing-capabilities` header: the formats and features that a client can read and a server uses.

    responseformat=parquet,delta;readerfeatures=deletionvectors,columnmapping;includeendstreamaction=true

Keys and values are case-insensitive; they are written in lower case, as the Python client requires.
"""

from __future__ import annotations

from dataclasses import dataclass

HEADER = "delta-sharing-capabilities"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The parsed header of a request or response, all in lower case; the defaults apply without a header."""

    response_formats: tuple[str, ...] = ("parquet",)
    """In the order given; never empty."""
    reader_features: frozenset[str] = frozenset()
    include_end_stream_action: bool = False
    async_query: bool = False
    access_modes: tuple[str, ...] = ()


def parse_capabilities(header: str | None) -> Capabilities:
    """Parse the header; None means it is absent. Unknown keys are ignored; the last value of a repeated key wins."""
    values = dict(map(_parse_capability, (header or "").lower().split(";")))
    return Capabilities(
        response_formats=values.get("responseformat") or ("parquet",),
        reader_features=frozenset(values.get("readerfeatures", ())),
        include_end_stream_action=values.get("includeendstreamaction") == ("true",),
        async_query=values.get("asyncquery") == ("true",),
        access_modes=values.get("accessmodes", ()),
    )


def _parse_capability(text: str) -> tuple[str, tuple[str, ...]]:
    key, _, values = text.partition("=")
    return key.strip(), tuple(dict.fromkeys(filter(None, map(str.strip, values.split(",")))))


def format_capabilities(capabilities: Capabilities) -> str:
    """The header, without values that are unset."""
    flags = {
        "includeendstreamaction": capabilities.include_end_stream_action,
        "asyncquery": capabilities.async_query,
    }
    lists = {
        "responseformat": capabilities.response_formats,
        "readerfeatures": tuple(sorted(capabilities.reader_features)),
        **{key: ("true",) for key, is_set in flags.items() if is_set},
        "accessmodes": capabilities.access_modes,
    }
    return ";".join(f"{key}={','.join(values)}" for key, values in lists.items() if values)
