"""Expensive attributes of objects shared between threads."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class lazy_property(Generic[T]):  # noqa: N801  # used like `property`
    """An attribute computed once, on first access, under a lock of its own. A failed computation is retried.

    `functools.cached_property` holds one lock for all objects of a class (Python 3.11), or computes the value in each
    thread (later versions)."""

    def __init__(self, work_out: Callable[[Any], T]) -> None:
        self._work_out, self.__doc__ = work_out, work_out.__doc__

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type[Any]) -> T: ...

    def __get__(self, instance: object, owner: type[Any]) -> Self | T:
        """Called only until the value is set: then the instance's own attribute shadows it."""
        if instance is None:
            return self
        values = instance.__dict__
        with values.setdefault(f"_{self._name}_lock", RLock()):
            if self._name not in values:
                values[self._name] = self._work_out(instance)
        value: T = values[self._name]
        return value
