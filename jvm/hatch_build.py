"""Puts the jar of `jvm/` into the wheel, if a JDK and pyspark are at hand, or if it has been built already."""

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
        if jar.exists() or version == "editable":
            return
        if shutil.which("javac") and importlib.util.find_spec("pyspark"):
            subprocess.run([root / "jvm/build.sh"], check=True, env=os.environ | {"PYTHON": sys.executable})
        else:
            self.app.display_warning("no JDK, or no pyspark: the wheel is without the jar for Spark's own reader")
