"""Errors as Spark shows them: our message on the first line, without the worker's stack trace."""

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
    """Strip stack traces from user-facing errors in a Spark worker process. Spark stops a worker after an error, so the
    setting does not leak."""
    try:
        yield
    except (LakeportError, ValueError, OSError):
        os.environ[_HIDE] = "1"
        raise


def with_plain_errors(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """The same for a method called by Spark."""

    @wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with plain_errors():
            return method(*args, **kwargs)

    return call
