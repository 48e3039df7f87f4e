"""Options as Spark passes them: strings, with case-insensitive names. Those of obstore start with `storage.`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

_STORAGE = "storage."
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
"""The power of two of each unit; a `b` may follow."""
_SIZE = re.compile(r"([0-9]+)\s*([kmgt]?)b?")
_Word = TypeVar("_Word", bound=str)


class GivenOptions:
    """The given options by name. Every method raises `ValueError`, with the option's name, for an invalid value."""

    def __init__(self, options: Mapping[str, str], names: Iterable[str], *, prefixes: tuple[str, ...] = ()) -> None:
        """`prefixes` are those of options read elsewhere. Raises `ValueError` for an unknown option."""
        self._options = options
        self._given: dict[str, str] = {}
        known = {name.lower(): name for name in names}
        for key, value in options.items():
            if key.lower().startswith((_STORAGE, *prefixes)):
                continue
            if key.lower() not in known:
                raise ValueError(f"there is no option {key!r}: {_advice(key.lower(), known, prefixes)}")
            self._given[known[key.lower()]] = value

    @property
    def storage_options(self) -> dict[str, str]:
        """With obstore's names."""
        return {k[len(_STORAGE) :]: v for k, v in self._options.items() if k.lower().startswith(_STORAGE)}

    def text(self, name: str) -> str | None:
        return self._given.get(name)

    def some(self, names: Iterable[str]) -> dict[str, str]:
        """The given options among the names."""
        return {name: self._given[name] for name in names if name in self._given}

    def flag(self, name: str) -> bool:
        return self.word(name, ("true", "false")) == "true"

    def number(self, name: str, least: int = 0) -> int | None:
        text = self._given.get(name)
        if text is None:
            return None
        if not (text.isascii() and text.strip().isdigit()) or int(text) < least:
            raise ValueError(f"the option {name} is a number, {least} or more, not {text!r}")
        return int(text)

    def size(self, name: str) -> int | None:
        text = self._given.get(name)
        if text is None:
            return None
        found = _SIZE.fullmatch(text.strip().lower())
        if found is None or int(found[1]) < 1:
            raise ValueError(f"the option {name} is a size such as 10g or 500m, not {text!r}")
        return int(found[1]) << _UNITS[found[2]]

    def word(self, name: str, words: tuple[_Word, ...]) -> _Word:
        """One of several words, in any case; the last is the default."""
        text = self._given.get(name, words[-1]).lower()
        for word in words:
            if text == word:
                return word
        raise ValueError(f"the option {name} is {' or '.join(words)}, not {text!r}")


def _advice(key: str, known: Mapping[str, str], prefixes: tuple[str, ...]) -> str:
    if near := get_close_matches(key, known, 1, 0.6):
        return f"did you mean {known[near[0]]}?"
    others = ", ".join(f"{prefix}…" for prefix in (*prefixes, _STORAGE))
    return f"there are {', '.join(known.values())}, and {others}"
