"""Parse options as Spark passes them: text, by case-insensitive names."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, NamedTuple, Self

import msgspec
from msgspec.structs import FieldInfo, fields

_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
"""The power of two of each unit; a `b` may follow."""
_SIZE = re.compile(r"([0-9]+)\s*([kmgt]?)b?")


class Form(NamedTuple):
    """How an option is written. `read` returns None for any other text."""

    description: str
    read: Callable[[str], Any]


def word(*words: str) -> Form:
    """One of several words, in any case."""
    return Form(" or ".join(words), lambda text: text.lower() if text.lower() in words else None)


def number(text: str, least: int = 0) -> int | None:
    return int(text) if text.isascii() and text.strip().isdigit() and int(text) >= least else None


def _size(text: str) -> int | None:
    found = _SIZE.fullmatch(text.strip().lower())
    return int(found[1]) << _UNITS[found[2]] if found and int(found[1]) else None


Flag = Annotated[bool, Form("true or false", lambda text: {"true": True, "false": False}.get(text.lower()))]
Number = Annotated[int | None, Form("a number, 0 or more", number)]
Positive = Annotated[int | None, Form("a number, 1 or more", lambda text: number(text, 1))]
Size = Annotated[int | None, Form("a size such as 10g or 500m", _size)]


class Options(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Each field is an option. A field whose name ends with a dot collects all options with that prefix."""

    @classmethod
    def read(cls, given: Mapping[str, str], without: Collection[FieldInfo] = ()) -> Self:
        """Raises `ValueError` for unknown options and invalid values."""
        excluded = {field.name for field in without}
        known = {field.encode_name.lower(): field for field in fields(cls) if field.name not in excluded}
        values: dict[str, Any] = {}
        for name, text in given.items():
            first, dot, rest = name.partition(".")
            field = known.get(first.lower() + dot)
            if field is None:
                raise ValueError(f"unknown option {name!r}: {_advice(name, known)}")
            values[field.name] = {**values.get(field.name, {}), rest: text} if dot else _value(field, text)
        return cls(**values)

    def __repr__(self) -> str:
        """Without values: some are secrets."""
        return f"{type(self).__name__}(…)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """The same in Rich's tracebacks."""
        return []


def _value(field: FieldInfo, text: str) -> Any:
    form = next((data for data in getattr(field.type, "__metadata__", ()) if isinstance(data, Form)), None)
    if form is None:
        return text
    if (value := form.read(text)) is None:
        raise ValueError(f"the option {field.encode_name} must be {form.description}, not {text!r}")
    return value


def _advice(name: str, known: Mapping[str, FieldInfo]) -> str:
    names = {key: field.encode_name + "…" * key.endswith(".") for key, field in known.items()}
    if near := get_close_matches(name.lower(), names, 1, 0.6):
        return f"did you mean {names[near[0]]}?"
    return f"the options are {', '.join(names.values())}"
