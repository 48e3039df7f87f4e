"""The header `delta-sharing-capabilities`: what a client can read, and in what form a server answers.

    responseformat=parquet,delta;readerfeatures=deletionvectors,columnmapping;includeendstreamaction=true

Keys and values have no case: they are read in any, and written in lower case, as the Python client needs it.
"""

from __future__ import annotations

from dataclasses import dataclass

HEADER = "delta-sharing-capabilities"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What the header of a request, or of an answer, says; the defaults are those of no header. All text is in lower
    case."""

    response_formats: tuple[str, ...] = ("parquet",)
    """In the order in which they were named; never empty."""
    reader_features: frozenset[str] = frozenset()
    include_end_stream_action: bool = False
    async_query: bool = False
    access_modes: tuple[str, ...] = ()


def parse_capabilities(header: str | None) -> Capabilities:
    """The capabilities in a header; None if there was none. Keys that are not known are ignored, and of a key that
    comes twice, the last counts."""
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
    """The header; what has not been asked for, or is not there, is left out."""
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
