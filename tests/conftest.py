"""What every test may use: the shared tables, and one way to say that something is missing."""

import os
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"

# A property is about what is returned, not about how busy the machine is.
settings.register_profile("lakeport", deadline=None)
settings.load_profile("lakeport")


def missing(reason: str) -> NoReturn:
    """Skip the test for want of something outside the project; with CI=true that is a failure."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("shared"):
        require_shared_tables()


def require_shared() -> Path:
    """The folder of shared test data, or a skip."""
    if not SHARED.is_dir():
        missing(f"no shared test data in {SHARED}")
    return SHARED


def require_shared_tables() -> Path:
    tables = require_shared() / "tables"
    if not tables.is_dir():
        missing(f"no shared tables in {tables}")
    return tables


@pytest.fixture(scope="session")
def shared_tables() -> Path:
    """The folder ``../shared/tables``: real tables, and what a right reader returns."""
    return require_shared_tables()
