"""The jar in the wheel: there, and never older than its sources."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from zipfile import ZipFile

import pytest

from lakeport.spark.native.jar import JAR
from tests.conftest import ROOT, missing


@pytest.fixture
def hook() -> ModuleType:
    """What hatchling runs when it builds the wheel."""
    if importlib.util.find_spec("hatchling") is None:
        missing("there is no hatchling: run make setup")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "jvm" / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_jar_that_is_older_than_one_of_its_sources_is_built_again(hook: ModuleType, tmp_path: Path) -> None:
    source, script, jar = tmp_path / "jvm" / "io" / "A.java", tmp_path / "jvm" / "build.sh", tmp_path / "a.jar"
    source.parent.mkdir(parents=True)
    for number, path in enumerate((source, script), 1):
        path.touch()
        os.utime(path, (number, number))
    assert not hook.is_newer(jar, tmp_path / "jvm")
    jar.touch()
    assert hook.is_newer(jar, tmp_path / "jvm")
    for time in (1, 0):
        os.utime(jar, (time, time))
        assert not hook.is_newer(jar, tmp_path / "jvm")


@pytest.mark.usefixtures("native_jar", "hook")
def test_the_wheel_has_the_jar(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with ZipFile(wheel) as content:
        assert content.read("lakeport/spark/native/lakeport-spark.jar") == JAR.read_bytes()
