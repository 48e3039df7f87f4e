"""The demo: it runs to its end, prints what the README shows, says nothing else, and fails if a row is wrong."""

import os
import re
import runpy
import subprocess
import sys

import pytest

from tests.conftest import ROOT

TIMES = re.compile(r"\d+(\.\d+)? s\b")
PORTS = re.compile(r"(localhost:|--port )\d+")


def run_demo(**environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "always", ROOT / "examples" / "demo.py"]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)


def without_times(text: str) -> list[str]:
    return [PORTS.sub(r"\1N", TIMES.sub("N s", line)).rstrip() for line in text.splitlines()]


def readme_output() -> list[str]:
    """The lines of the README that show the demo; … stands for lines that are left out."""
    found = re.search(r"^```text\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    return [line for line in without_times(found[1]) if line.strip() != "…"]


@pytest.mark.exhaustive(instead="make demo in .ci/run")
def test_the_demo_prints_what_the_readme_shows_and_nothing_else() -> None:
    run = run_demo()
    assert (run.returncode, run.stderr) == (0, ""), run.stdout
    printed = iter(without_times(run.stdout))
    assert [line for line in readme_output() if line not in printed] == []  # each one after the one before


def test_without_java_the_demo_leaves_out_spark_only() -> None:
    run = run_demo(JAVA_HOME="/nonexistent")
    assert (run.returncode, run.stderr) == (3, ""), run.stdout
    assert "Act 4 took" in run.stdout
    assert "without Spark: install Java 17" in run.stdout.splitlines()[-1]


def test_a_wrong_row_fails_the_demo(capsys: pytest.CaptureFixture[str]) -> None:
    show = runpy.run_path(str(ROOT / "examples" / "demo.py"))["show"]
    with pytest.raises(SystemExit, match=r"failed\. Cedar's view: expected .*45.*, got .*46") as failure:
        show({"Birch's table:": [(3, "Oslo", 45)], "Cedar's view:": [(3, "Oslo", 46)]}, [(3, "Oslo", 45)])
    assert failure.value.code != 0
    assert "46" in capsys.readouterr().out


def test_the_pipeline_is_short() -> None:
    assert len((ROOT / "examples" / "pipeline.py").read_text().splitlines()) <= 120
