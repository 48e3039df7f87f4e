"""Attributes that take long to work out, of objects that several threads use."""

from __future__ import annotations

from functools import cached_property
from threading import RLock
from typing import Any, TypeVar

T = TypeVar("T")


class lazy_property(cached_property[T]):  # noqa: N801  # used like `property`
    """A `cached_property` that is worked out once, while other threads wait, whatever happens to other objects.

    The standard one makes threads wait for all objects of a class (Python 3.11), or works the value out in each of them
    (later versions)."""

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        values, name = instance.__dict__, self.attrname
        with values.setdefault(f"_{name}_lock", RLock()):
            if name not in values:
                values[name] = self.func(instance)
        return values[name]
