"""Puts the jar of `jvm/` into the wheel; a new one, if a JDK and pyspark are at hand and its sources are newer."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class JarHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        jar = root / "src/lakeport/spark/native/lakeport-spark.jar"
        if version == "editable" or is_newer(jar, root / "jvm"):
            return
        if shutil.which("javac") and importlib.util.find_spec("pyspark"):
            subprocess.run([root / "jvm/build.sh"], check=True, env=os.environ | {"PYTHON": sys.executable})
        elif jar.exists():
            raise RuntimeError(f"{jar} is older than its sources: build it where a JDK and pyspark are, or delete it")
        else:
            self.app.display_warning("no JDK, or no pyspark: the wheel is without the jar for Spark's own reader")


def is_newer(jar: Path, sources: Path) -> bool:
    """Whether a jar is there, and was made after all that it is made of."""
    made_of = [sources / "build.sh", *sources.rglob("*.java")]
    return jar.exists() and jar.stat().st_mtime_ns >= max(path.stat().st_mtime_ns for path in made_of)
