#!/usr/bin/env bash
# Sets the project up if need be and runs the demo: `make demo`, for machines that have no make.
set -euo pipefail
cd "$(dirname "$0")/.."

export PYTHONDONTWRITEBYTECODE= # each of the demo's processes would compile Lakeport anew
scripts/setup.sh
exec .venv/bin/python examples/demo.py
