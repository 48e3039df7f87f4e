#!/usr/bin/env bash
# Puts what tests/interop needs into .peers: servers, namely versitygw and MinIO (S3), fake-gcs-server (GCS), Azurite (Azure)
# and Moto (AWS Glue), Delta's own library for Spark, the connector for Delta Sharing beside it, other versions of Spark,
# Iceberg's library for one of them, DuckDB with its extensions for Delta and Iceberg, and the client of Delta Sharing for
# Python. What cannot be had is reported and left out; its tests say so. `peers.sh duckdb` puts only DuckDB there, which other
# tests need, too.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

VERSITYGW=v1.8.0
MINIO=v0.0.0-20260212201848-7aac2a2c5b7c # its last: has a token service (STS), which versitygw has not
FAKE_GCS_SERVER=v1.56.1
AZURITE=3.35.0 # the last that runs on the Node.js of Debian 12
PYSPARK=4.2.0
DELTA=4.4.0 # for Spark 4.2
OLDEST_PYSPARK=4.1.1 # that Lakeport runs on
NEWEST_PYSPARK=4.3.0
ICEBERG=1.12.0 # its newest for Spark is for 4.1
DELTA_SHARING_JVM=1.4.1 # what the connector of this version of Delta asks for
DELTA_SHARING=1.4.2
MOTO=5.2.5 # has AWS Glue
DUCKDB=1.5.5 # the newest whose Delta extension is on PyPI

peers=$PWD/.peers
mkdir -p "$peers"

say() { printf '%s\n' "$*" >&2; }

# need COMMAND PACKAGE...: COMMAND is there, or can be installed from the distribution.
need() {
    local command=$1
    shift
    command -v "$command" >/dev/null && return
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    say "Installing $* with apt-get …"
    apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# once NAME VERSION COMMAND...: run COMMAND unless it has already put this version in place.
once() {
    local stamp=$peers/$1-$2.ready name="$1 $2"
    shift 2
    [ -e "$stamp" ] && return
    say "Building $name …"
    if "$@" >"$peers/build.log" 2>&1; then
        touch "$stamp"
    else
        say "$name could not be built:"
        tail -n 5 "$peers/build.log" >&2
    fi
}

# DuckDB in an environment of its own: the extension fits one version only.
duckdb() {
    environment "$peers/duckdb" "duckdb==$DUCKDB" "pyarrow==25.*" duckdb-extension-{avro,delta,iceberg,parquet}=="$DUCKDB"
}
once duckdb-with-iceberg "$DUCKDB" duckdb
[ "${1:-}" = duckdb ] && exit

if need go golang-go; then
    once versitygw "$VERSITYGW" env GOBIN="$peers/bin" go install "github.com/versity/versitygw/cmd/versitygw@$VERSITYGW"
    once minio "$MINIO" env GOBIN="$peers/bin" go install "github.com/minio/minio@$MINIO"
    once fake-gcs-server "$FAKE_GCS_SERVER" env GOBIN="$peers/bin" go install "github.com/fsouza/fake-gcs-server@$FAKE_GCS_SERVER"
else
    say "The S3 and GCS servers need Go 1.25 or newer: install it and run make interop again."
fi
if need npm npm; then
    once azurite "$AZURITE" npm install --prefix "$peers" --no-audit --no-fund --loglevel error "azurite@$AZURITE"
else
    say "Azurite needs Node.js and npm: install them and run make interop again."
fi

need pg_ctlcluster postgresql || say "The catalog's tests need PostgreSQL: install it and run make interop again."

# Spark in an environment of its own, and the jars of Delta beside it.
spark() {
    rm -rf "$peers/jars"
    environment "$peers/spark" "pyspark==$PYSPARK" "pyarrow==25.*" "pandas==2.*" || return
    local artifact
    for artifact in delta-spark_4.2_2.13 delta-storage delta-kernel-api delta-kernel-defaults delta-kernel-unitycatalog; do
        mvn --batch-mode --quiet dependency:copy -Dartifact="io.delta:$artifact:$DELTA" -DoutputDirectory="$peers/jars" || return
    done
}
# The connector for Delta Sharing; the rest of what it needs comes with Spark.
sharing_connector() {
    local artifact
    for artifact in "delta-sharing-spark_4.2_2.13:$DELTA" "delta-sharing-client_2.13:$DELTA_SHARING_JVM"; do
        mvn --batch-mode --quiet dependency:copy -Dartifact="io.delta:$artifact" -DoutputDirectory="$peers/sharing-jars" || return
    done
}
# Other versions of Spark that Lakeport runs on, each in an environment of its own with what Lakeport needs.
other_spark() {
    environment "$peers/spark-$1" "pyspark==$1" "pyarrow==25.*" "pandas==2.*" \
            msgspec numpy obstore pyroaring rich sqlglot typer urllib3
}
once oldest-spark "$OLDEST_PYSPARK" other_spark "$OLDEST_PYSPARK"
once newest-spark "$NEWEST_PYSPARK" other_spark "$NEWEST_PYSPARK"
iceberg() {
    mvn --batch-mode --quiet dependency:copy -Dartifact="org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:$ICEBERG" \
        -DoutputDirectory="$peers/iceberg-jars" && ln -sfn "spark-$OLDEST_PYSPARK" "$peers/iceberg-spark"
}
if need mvn maven; then
    once spark "$PYSPARK-$DELTA" spark
    once iceberg "$ICEBERG" iceberg
    rm -f "$peers/sharing-connector.unpublished"
    once sharing-connector "$DELTA-$DELTA_SHARING_JVM" sharing_connector
    # A registry that has no such artifact is no fault of this machine: its tests are skipped, with this as the reason.
    [ -e "$peers/sharing-connector-$DELTA-$DELTA_SHARING_JVM.ready" ] || ! grep -qiE "(could not|unable to) find artifact" "$peers/build.log" ||
        touch "$peers/sharing-connector.unpublished"
else
    say "Delta's libraries for Spark need Maven: install it and run make interop again."
fi

# The client of Delta Sharing for Python in an environment of its own: it asks for older versions than ours.
delta_sharing() {
    environment "$peers/delta-sharing" "delta-sharing==$DELTA_SHARING"
}
once delta-sharing "$DELTA_SHARING" delta_sharing

moto() {
    environment "$peers/moto" "moto[glue,server]==$MOTO"
}
once moto "$MOTO" moto
