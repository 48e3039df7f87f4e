#!/usr/bin/env bash
# Compiles the classes beside this file against the jars that pyspark ships, into the jar that the package carries.
# PYTHON=/path/to/python chooses the interpreter whose pyspark it is.
set -euo pipefail
cd "$(dirname "$0")"

jars=$("${PYTHON:-python3}" -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent / "jars")')
classes=$(mktemp -d)
trap 'rm -rf "$classes"' EXIT
javac --release 17 -Xlint:all,-path,-processing -Werror -cp "$jars/*" -d "$classes" $(find io -name "*.java")
target=../src/lakeport/spark/native/lakeport-spark.jar
jar --create --date=1980-01-01T00:00:02Z --file "$target.new" -C "$classes" .
mv "$target.new" "$target" # at once: a session that runs keeps the one that it has open
