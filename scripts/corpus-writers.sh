#!/usr/bin/env bash
# Puts the writers of tests/corpus into .peers: Delta's own library for Spark in two versions, and DuckDB.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

OLD_PYSPARK=3.5.7
OLD_DELTA=3.3.2 # the last for Spark 3.5

old_delta() {
    environment "$peers/old-spark-$OLD_PYSPARK" "pyspark==$OLD_PYSPARK" "pyarrow==25.*" "pandas==2.*" &&
        jars "delta-$OLD_DELTA-jars" io.delta:{delta-spark_2.12,delta-storage}:"$OLD_DELTA"
}

scripts/peers.sh duckdb
scripts/peers.sh delta
once old-delta "$OLD_PYSPARK-$OLD_DELTA" old_delta
