"""Errors as Spark shows them: our message in the first line, without the stack of a worker process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from lakeport.errors import LakeportError

_HIDE = "SPARK_HIDE_TRACEBACK"
_P = ParamSpec("_P")
_T = TypeVar("_T")


@contextmanager
def plain_errors() -> Iterator[None]:
    """In a worker process of Spark: what is raised for the user comes without a stack. Spark ends a worker after an
    error, so that the setting concerns no other."""
    try:
        yield
    except (LakeportError, ValueError, OSError):
        os.environ[_HIDE] = "1"
        raise


def with_plain_errors(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """The same for a method that Spark calls."""

    @wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with plain_errors():
            return method(*args, **kwargs)

    return call
