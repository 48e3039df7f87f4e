# Every target does its own set-up: on a fresh Debian or Ubuntu machine, `make demo` and `make test` are enough.
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all check interop soak faults bench corpus lock clean

PY := .venv/bin/python
# Container images set it, and then each process of a test compiles all that it imports.
export PYTHONDONTWRITEBYTECODE :=

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## create .venv from requirements.lock; find or install a Java runtime (for Spark)
	@scripts/setup.sh

demo: setup ## follow a table from a provider through a pipeline on Spark to readers of Iceberg and pandas
	@$(PY) examples/demo.py

test: setup ## run a sample of the tests, without interop, that still covers everything; DuckDB is put into .peers
	scripts/peers.sh duckdb
	$(PY) -m tests.class_archive
	$(PY) -m pytest -n 3 --dist loadfile --sample --durations 15 --ignore=tests/interop

test-all: setup ## run every test, interop included; servers and other clients are put into .peers
	scripts/peers.sh
	$(PY) -m tests.class_archive
	$(PY) -m pytest -n 3 --dist loadfile --durations 15 --ignore=tests/interop
	$(PY) -m pytest -n 3 --dist loadfile --durations 15 tests/interop

check: setup ## lint, format check, mypy --strict, and who may import whom
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy --strict src
	$(PY) -m pytest -q tests/test_architecture.py

interop: setup ## run a sample of the tests against S3, Azure and GCS servers and Delta on Spark, put into .peers
	scripts/peers.sh
	$(PY) -m tests.class_archive
	$(PY) -m pytest -n 3 --dist loadfile --sample --durations 15 tests/interop

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
	LAKEPORT_MERGE_LIMIT_MIB=512 $(PY) -m pytest tests/tables/merge/test_spilled.py -k four_times_the_limit
	LAKEPORT_SCHEMATHESIS_EXAMPLES=1000 $(PY) -m pytest tests/interop/test_openapi.py
	LAKEPORT_STATEFUL_EXAMPLES=500 $(PY) -m pytest tests/whole/test_stateful.py tests/whole/test_foreign_files.py tests/iceberg/test_histories.py
	LAKEPORT_STATEFUL_EXAMPLES=50 $(PY) -m pytest tests/interop/test_iceberg_spark.py -k histories

faults: setup ## plant faults one at a time: which test finds each, in make test and in make test-all
	$(PY) -m tests.faults

bench: setup ## measure against peers, side by side
	$(PY) -m bench

corpus: setup ## make tests/corpus anew: tables of other writers, with the rows that they read back
	scripts/corpus-writers.sh
	$(PY) -m tests.corpus.make

lock: setup ## choose the newest versions again and write requirements.lock
	scripts/lock.sh

clean: ## remove what make created, except .peers
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
	find . -name __pycache__ -type d -not -path './.peers/*' -prune -exec rm -rf {} +
