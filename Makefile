# Every target does its own set-up: on a fresh Debian or Ubuntu machine, `make demo` and `make test` are enough.
.DEFAULT_GOAL := help
.PHONY: help setup demo test check interop soak bench lock clean

PY := .venv/bin/python
READY := .venv/.ready

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## create .venv from requirements.lock; find or install a Java runtime (for Spark)

demo: setup ## make a table, change it, read it; share it, serve it, read it as a recipient; mirror it for Iceberg
	$(PY) examples/demo.py
	$(PY) examples/share.py
	$(PY) examples/iceberg.py

test: setup ## run the tests (all but interop); DuckDB, as a reader of Iceberg, is put into .peers
	scripts/peers.sh duckdb
	$(PY) -m pytest -n 2 --durations 15 --ignore=tests/interop

check: setup ## lint, format check, mypy --strict, and who may import whom
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy --strict src
	$(PY) -m pytest -q tests/test_architecture.py

interop: setup ## run the tests against real S3, Azure and GCS servers and Delta on Spark, put into .peers
	scripts/peers.sh
	$(PY) -m pytest -n 2 --dist loadgroup --durations 15 tests/interop

soak: setup ## many writers, readers and streams, under load, faults and kills; random operations
	scripts/peers.sh
	$(PY) -m tests.soak.writers
	$(PY) -m tests.soak.s3_writers
	$(PY) -m tests.soak.mixed_writers
	$(PY) -m tests.soak.killed_writers
	$(PY) -m tests.soak.sharing_load
	$(PY) -m tests.soak.killed_sync
	$(PY) -m tests.soak.sharing_faults
	$(PY) -m tests.soak.killed_streams
	$(PY) -m tests.soak.native_faults
	$(PY) -m tests.soak.killed_conversions
	LAKEPORT_SCHEMATHESIS_EXAMPLES=1000 $(PY) -m pytest tests/interop/test_openapi.py
	LAKEPORT_STATEFUL_EXAMPLES=500 $(PY) -m pytest tests/test_stateful.py tests/iceberg/test_histories.py
	LAKEPORT_STATEFUL_EXAMPLES=50 $(PY) -m pytest tests/interop/test_iceberg_spark.py -k histories

bench: setup ## measure against peers, side by side
	$(PY) -m bench

lock: setup ## choose the newest versions again and write requirements.lock
	scripts/lock.sh

clean: ## remove what make created, except .peers
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
	find . -name __pycache__ -type d -not -path './.peers/*' -prune -exec rm -rf {} +

$(READY): requirements.lock pyproject.toml scripts/setup.sh jvm/build.sh $(wildcard jvm/io/lakeport/spark/*.java)
	scripts/setup.sh
