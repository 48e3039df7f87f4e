"""Every error comes back from another process as it was raised."""

import inspect
import pickle
from collections.abc import Iterator

import pytest

from lakeport import errors
from lakeport.errors import LakeportError

VALUES = {
    "path": "s3://x/y",
    "version": 3,
    "earliest": 1,
    "latest": 5,
    "features": ["a", "b"],
    "position": 7,
    "column": "c",
    "row": 4,
    "constraint": "positive",
    "status": 429,
    "code": "RESOURCE_EXHAUSTED",
    "wait_seconds": 2.5,
    "reason": "type void",
}


def kinds() -> Iterator[type[LakeportError]]:
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, LakeportError):
            yield kind


@pytest.mark.parametrize("kind", list(kinds()))
def test_an_error_can_be_pickled(kind: type[LakeportError]) -> None:
    names = inspect.signature(kind.__init__).parameters.keys() & VALUES.keys()
    error = kind("what happened", **{name: VALUES[name] for name in names})
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert (str(copy), vars(copy)) == (str(error), vars(error))


@pytest.mark.parametrize("kind", list(kinds()))
def test_control_characters_in_a_message_do_not_reach_the_terminal(kind: type[LakeportError]) -> None:
    wanted = inspect.signature(kind.__init__).parameters
    error = kind("gone\x1b[2J\x9b1m\u202e\r\n ^ here", **{name: VALUES[name] for name in VALUES if name in wanted})
    assert str(error).startswith("gone\\x1b[2J\\x9b1m\\u202e\\r\n ^ here")
