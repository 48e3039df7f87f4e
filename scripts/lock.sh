#!/usr/bin/env bash
# Writes requirements.lock: what it takes to run, test and check the project, by version and hash. Run by `make lock`.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v uv >/dev/null; then
    .venv/bin/python -m pip install --quiet --disable-pip-version-check uv
    PATH="$PWD/.venv/bin:$PATH"
fi
uv pip compile pyproject.toml --extra server --extra aws --extra azure --extra gcs --extra oauth --extra polars --extra duckdb --extra pandas --extra spark --extra iceberg --group dev \
    --universal --python-version 3.11 --fork-strategy fewest --upgrade --generate-hashes \
    --no-emit-index-url --custom-compile-command 'make lock' --quiet --output-file requirements.lock
