"""Types as people write them, in SQL: `bigint`, `decimal(10,2)`, `array<struct<name: string, at: timestamp>>`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from lakeport.errors import LakeportError
from lakeport.kernel.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructType, parse_schema

_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|([^\W\d]\w*(?:\s*\([\d\s,]*\))?)|([<>:,]))\s*")


def parse_type(text: str) -> DataType:
    """The type that the text spells. Raises `ValueError`."""
    data_type, end = parse_type_at(text)
    if text[end:].strip():
        raise _not_a_type(text)
    return data_type


def parse_type_at(text: str, start: int = 0) -> tuple[DataType, int]:
    """The type that the text has at a place, and where it ends. Raises `ValueError`."""
    tokens = _Tokens(text, start)
    try:
        column = {"name": "column", "type": tokens.read_type(), "nullable": True, "metadata": {}}
        schema = parse_schema(msgspec.json.encode({"type": "struct", "fields": [column]}).decode())
        return schema.fields[0].type, tokens.position
    except (_SyntaxError, LakeportError, RecursionError):
        raise _not_a_type(text[start : tokens.position] or text[start:]) from None


def _not_a_type(text: str) -> ValueError:
    return ValueError(
        f"{text.strip()!r} is not a type: types are string, int, bigint, double, decimal(10,2), boolean, date, "
        "timestamp, timestamp_ntz, binary …, array<int>, map<string, int> and struct<a: int, b: string>"
    )


class _SyntaxError(Exception):
    pass


class _Tokens:
    def __init__(self, text: str, start: int) -> None:
        self._text, self.position = text, start

    def read_type(self) -> Any:
        """The type in the terms of the protocol's JSON."""
        match self._take().lower():
            case "array" if self._peek() == "<":
                return {"type": "array", "elementType": self._only("<"), "containsNull": True} | self._closed()
            case "map" if self._peek() == "<":
                key, value = self._only("<"), self._only(",")
                return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True} | self._closed()
            case "struct" if self._peek() == "<":
                return {"type": "struct", "fields": list(self._fields())} | self._closed()
            case name:
                return re.sub(r"\s", "", name)

    def _peek(self) -> str:
        match = _TOKEN.match(self._text, self.position)
        return match[0].strip() if match else ""

    def _take(self) -> str:
        match = _TOKEN.match(self._text, self.position)
        if match is None:
            raise _SyntaxError
        self.position = match.end()
        return match[0].strip()

    def _expect(self, token: str) -> None:
        if self._take() != token:
            raise _SyntaxError

    def _only(self, before: str) -> Any:
        self._expect(before)
        return self.read_type()

    def _closed(self) -> dict[str, Any]:
        self._expect(">")
        return {}

    def _fields(self) -> Iterator[dict[str, Any]]:
        separator = "<"
        while separator == "<" or self._peek() == ",":
            self._expect(separator)
            name = parse_name(self._take())
            yield {"name": name, "type": self._only(":"), "nullable": True, "metadata": {}}
            separator = ","


def parse_name(text: str) -> str:
    """A name without the backticks that may be around it."""
    return text[1:-1].replace("``", "`") if text.startswith("`") else text


def format_type(data_type: DataType) -> str:
    """A type as SQL writes it: `array<struct<a: long, b: string>>`."""
    match data_type:
        case PrimitiveType(name):
            return name
        case ArrayType(element, _):
            return f"array<{format_type(element)}>"
        case MapType(key, value, _):
            return f"map<{format_type(key)}, {format_type(value)}>"
        case StructType(fields):
            return f"struct<{', '.join(f'{f.name}: {format_type(f.type)}' for f in fields)}>"
