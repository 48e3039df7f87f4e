"""The server that the suite is pointed at."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.serving import served_roles
from tests.conformance.target import SharedTable, Target, load_target

PROFILE = "LAKEPORT_CONFORMANCE_PROFILE"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "section(name): the section of the protocol whose rule it is")


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """The server of the profile that the environment names, or the suite's own."""
    if profile := os.environ.get(PROFILE):
        named = load_target(Path(profile))
        with named.session:
            yield named
    else:
        with served_roles(tmp_path_factory.mktemp("roles")) as own:
            yield own


@pytest.fixture
def own(target: Target) -> Target:
    """The suite's own server: for what no profile can say of another."""
    if not target.own:
        pytest.skip("the rule is tested on the suite's own server only")
    return target


@pytest.fixture
def plain(target: Target) -> SharedTable:
    return target.table("plain")


@pytest.fixture
def stream(target: Target) -> SharedTable:
    return target.table("stream")


@pytest.fixture
def feed(target: Target) -> SharedTable:
    return target.table("feed")


@pytest.fixture
def vectors(target: Target) -> SharedTable:
    return target.table("vectors")


@pytest.fixture
def mapped(target: Target) -> SharedTable:
    return target.table("mapped")
