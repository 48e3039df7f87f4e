"""What every test may use: the shared tables, and one way to say that something is missing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
from hypothesis import settings

from tests.class_archive import java_options
from tests.examples import take_few
from tests.sampling import Sample

if TYPE_CHECKING:
    from tests.client.shares import Shared
    from tests.server.running import Running

for _variable in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):  # of Spark's drivers and daemons
    os.environ.setdefault(_variable, java_options())

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"

# A shell's background jobs ignore interrupts, and so would the commands that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A property is about what is returned, not about how busy the machine is.
settings.register_profile("lakeport", deadline=None)
settings.load_profile("lakeport")


def missing(reason: str) -> NoReturn:
    """Skip the test for want of something outside the project; with CI=true that is a failure."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sample", action="store_true", help="take the quick run's cases only: see tests/sampling.py")


def pytest_configure(config: pytest.Config) -> None:
    if config.pluginmanager.hasplugin("xdist"):
        from tests.scheduling import LongestFirst

        config.pluginmanager.register(LongestFirst())
    if config.getoption("--sample"):
        take_few()
        config.pluginmanager.register(Sample())


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("shared"):
        require_shared_tables()


def require_shared() -> Path:
    """The folder of shared test data, or a skip: it is beside the checkout or nowhere, and no machine can make it."""
    if not SHARED.is_dir():
        pytest.skip(f"no shared test data in {SHARED}")
    return SHARED


def require_shared_tables() -> Path:
    tables = require_shared() / "tables"
    if not tables.is_dir():
        pytest.skip(f"no shared tables in {tables}")
    return tables


@pytest.fixture(scope="session")
def shared_tables() -> Path:
    """The folder ``../shared/tables``: real tables, and what a right reader returns."""
    return require_shared_tables()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """A server with a few small tables."""
    from tests.client.shares import sharing_tables

    with sharing_tables(tmp_path_factory.mktemp("shared")) as found:
        yield found


@pytest.fixture(scope="session")
def real_tables_server() -> Iterator[Running]:
    """A server that shares all real tables, under the names that `shared_name` gives them."""
    from tests.acceptance.real_tables import NAMES, path_of, shared_name  # they are read only where they are needed
    from tests.server.running import running, sharing

    content = sharing({shared_name(name): path_of(name) for name in NAMES}, history_shared=True)
    with running(content, delta_table_cache_size=5) as server:  # fewer than there are tables
        yield server


@pytest.fixture(scope="session")
def real_tables_profile(real_tables_server: Running, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The profile of a recipient of all real tables."""
    from tests.client.shares import profile_text

    path = tmp_path_factory.mktemp("profile") / "all.share"
    path.write_text(profile_text(real_tables_server.endpoint))
    return path
