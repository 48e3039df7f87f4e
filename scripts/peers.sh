#!/usr/bin/env bash
# Puts what tests/interop needs into .peers: servers, namely MinIO (S3 and its token service), fake-gcs-server (GCS),
# Azurite (Azure) and Moto (AWS Glue), Delta's own library for Spark, the connector for Delta Sharing beside it, other
# versions of Spark, Iceberg's library for one of them, DuckDB with its extensions for Delta and Iceberg, and the client of
# Delta Sharing for Python. Several runs may overlap. What cannot be had is reported and left out; its tests say so.
# `peers.sh NAME` puts only one there: duckdb and delta are needed elsewhere, too.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

MINIO=v0.0.0-20260212201848-7aac2a2c5b7c # its last
FAKE_GCS_SERVER=v1.56.1
AZURITE=3.35.0 # the last that runs on the Node.js of Debian 12
DELTA=4.4.0 # for Spark 4.2, which Lakeport's own environment has
OLDEST_PYSPARK=4.1.1 # that Lakeport runs on
NEWEST_PYSPARK=4.3.0
ICEBERG=1.12.0 # its newest for Spark is for 4.1
DELTA_SHARING_JVM=1.4.1 # what the connector of this version of Delta asks for
DELTA_SHARING=1.4.2
MOTO=5.2.5 # has AWS Glue
DUCKDB=1.5.5 # the newest whose Delta extension is on PyPI

# need COMMAND PACKAGE...: COMMAND is there, or can be installed from the distribution.
need() {
    local command=$1
    shift
    command -v "$command" >/dev/null && return
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    say "Installing $* with apt-get …"
    apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# DuckDB in an environment of its own: the extension fits one version only.
duckdb() {
    environment "$peers/duckdb" "duckdb==$DUCKDB" "pyarrow==25.*" duckdb-extension-{avro,delta,iceberg,parquet}=="$DUCKDB"
}

delta() {
    ln -sfn ../.venv "$peers/spark"
    jars jars io.delta:{delta-spark_4.2_2.13,delta-storage,delta-kernel-api,delta-kernel-defaults,delta-kernel-unitycatalog}:"$DELTA"
}

# The connector for Delta Sharing; the rest of what it needs comes with Spark.
sharing_connector() {
    jars sharing-jars "io.delta:delta-sharing-spark_4.2_2.13:$DELTA" "io.delta:delta-sharing-client_2.13:$DELTA_SHARING_JVM"
}

# Other versions of Spark that Lakeport runs on, each in an environment of its own with what Lakeport needs.
other_spark() {
    environment "$peers/spark-$1" "pyspark==$1" "pyarrow==25.*" "pandas==2.*" \
        msgspec numpy obstore pyroaring rich sqlglot typer urllib3
}

iceberg() {
    jars iceberg-jars "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:$ICEBERG" &&
        ln -sfn "spark-$OLDEST_PYSPARK" "$peers/iceberg-spark"
}

# Compiled quickly rather than well: the tests wait longer for the compiler than for these servers.
go_program() { CGO_ENABLED=0 GOBIN="$peers/bin" go install -ldflags="-s -w" -gcflags="all=-N -l" "$1"; }

go_programs() {
    once minio "$MINIO" go_program "github.com/minio/minio@$MINIO"
    once fake-gcs-server "$FAKE_GCS_SERVER" go_program "github.com/fsouza/fake-gcs-server@$FAKE_GCS_SERVER"
}

case "${1:-all}" in
duckdb) once duckdb-with-iceberg "$DUCKDB" duckdb ;;
delta) once delta "$DELTA" delta ;;
all)
    "$0" duckdb
    if need go golang-go; then
        go_programs & # compiles while the others are fetched
    else
        say "The S3 and GCS servers need Go 1.25 or newer: install it and run make interop again."
    fi
    if need npm npm; then
        once azurite "$AZURITE" npm install --prefix "$peers" --no-audit --no-fund --loglevel error "azurite@$AZURITE"
    else
        say "Azurite needs Node.js and npm: install them and run make interop again."
    fi
    need pg_ctlcluster postgresql || say "The catalog's tests need PostgreSQL: install it and run make interop again."
    once oldest-spark "$OLDEST_PYSPARK" other_spark "$OLDEST_PYSPARK"
    once newest-spark "$NEWEST_PYSPARK" other_spark "$NEWEST_PYSPARK"
    if need mvn maven; then
        "$0" delta
        once iceberg "$ICEBERG" iceberg
        once sharing-connector "$DELTA-$DELTA_SHARING_JVM" sharing_connector
        # A registry that has no such artifact is no fault of this machine: its tests are skipped, with this as the reason.
        rm -f "$peers/sharing-connector.unpublished"
        ! grep -qiE "(could not|unable to) find artifact|was not found in" "$peers/sharing-connector.log" || touch "$peers/sharing-connector.unpublished"
    else
        say "Delta's libraries for Spark need Maven: install it and run make interop again."
    fi
    # In environments of their own: they ask for older versions than ours.
    once delta-sharing "$DELTA_SHARING" environment "$peers/delta-sharing" "delta-sharing==$DELTA_SHARING"
    once moto "$MOTO" environment "$peers/moto" "moto[glue,server]==$MOTO"
    wait
    ;;
*)
    say "There is no peer named $1 that can be had alone: run scripts/peers.sh, or scripts/peers.sh duckdb or delta."
    exit 2
    ;;
esac
