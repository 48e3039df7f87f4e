"""Types as people write them, in SQL: `bigint`, `decimal(10,2)`, `array<struct<name: string, at: timestamp>>`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from lakeport.errors import LakeportError
from lakeport.kernel.schema import DataType, parse_schema

_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|([^\W\d]\w*(?:\s*\([\d\s,]*\))?)|([<>:,]))\s*")


def parse_type(text: str) -> DataType:
    """The type that the text spells. Raises `ValueError`."""
    try:
        tokens = _Tokens(text)
        raw = tokens.read_type()
        tokens.expect("")
        column = {"name": "column", "type": raw, "nullable": True, "metadata": {}}
        return parse_schema(msgspec.json.encode({"type": "struct", "fields": [column]}).decode()).fields[0].type
    except (_SyntaxError, LakeportError, RecursionError):
        raise ValueError(
            f"{text!r} is not a type: types are string, int, bigint, double, decimal(10,2), boolean, date, timestamp, "
            "timestamp_ntz, binary …, array<int>, map<string, int> and struct<a: int, b: string>"
        ) from None


class _SyntaxError(Exception):
    pass


class _Tokens:
    def __init__(self, text: str) -> None:
        self._rest = _tokens(text)
        self._next = next(self._rest)

    def read_type(self) -> Any:
        """The type in the terms of the protocol's JSON."""
        match self.take().lower():
            case "array" if self._next == "<":
                return {"type": "array", "elementType": self._only("<"), "containsNull": True} | self._closed()
            case "map" if self._next == "<":
                key, value = self._only("<"), self._only(",")
                return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True} | self._closed()
            case "struct" if self._next == "<":
                return {"type": "struct", "fields": list(self._fields())} | self._closed()
            case name:
                return re.sub(r"\s", "", name)

    def take(self) -> str:
        taken, self._next = self._next, next(self._rest, "")
        return taken

    def expect(self, token: str) -> None:
        if self.take() != token:
            raise _SyntaxError

    def _only(self, before: str) -> Any:
        self.expect(before)
        return self.read_type()

    def _closed(self) -> dict[str, Any]:
        self.expect(">")
        return {}

    def _fields(self) -> Iterator[dict[str, Any]]:
        separator = "<"
        while separator == "<" or self._next == ",":
            self.expect(separator)
            name = self.take()
            name = name[1:-1].replace("``", "`") if name.startswith("`") else name
            yield {"name": name, "type": self._only(":"), "nullable": True, "metadata": {}}
            separator = ","


def _tokens(text: str) -> Iterator[str]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _SyntaxError
        yield match[0].strip()
        position = match.end()
    yield ""
