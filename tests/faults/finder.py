"""A pytest plugin that writes the id of the first failing test to the file that `LAKEPORT_FAULT_FOUND` names.

Loaded by `-p tests.faults.finder`: ids in pytest's own output cannot be told from the messages behind them. Hypothesis
does not shrink what it finds: that can take longer than the rest of the suite.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import Phase, settings

VARIABLE = "LAKEPORT_FAULT_FOUND"


@pytest.hookimpl(trylast=True)
def pytest_sessionstart() -> None:
    phases = [phase for phase in Phase if phase not in (Phase.shrink, Phase.explain)]
    settings.register_profile("faults", parent=settings(), phases=phases)
    settings.load_profile("faults")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _note(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _note(report)


def _note(report: pytest.TestReport | pytest.CollectReport) -> None:
    path = Path(os.environ[VARIABLE])
    if report.failed and not path.exists():
        path.write_text(report.nodeid)
