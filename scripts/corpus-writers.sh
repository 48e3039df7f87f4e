#!/usr/bin/env bash
# Puts the writers of tests/corpus into .peers: Delta's own library for Spark as scripts/peers.sh does, an older version of it, and DuckDB.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

OLD_PYSPARK=3.5.7
OLD_DELTA=3.3.2 # the last for Spark 3.5
eval "$(grep -E '^(PYSPARK|DELTA)=' scripts/peers.sh)"

peers=$PWD/.peers
mkdir -p "$peers"

# spark FOLDER PYSPARK
spark() { environment "$peers/$1" "pyspark==$2" "pyarrow==25.*" "pandas==2.*"; }

# jars FOLDER VERSION ARTIFACT...
jars() {
    local folder=$1 version=$2 artifact
    shift 2
    rm -rf "${peers:?}/$folder"
    for artifact; do
        mvn --batch-mode --quiet dependency:copy -Dartifact="io.delta:$artifact:$version" -DoutputDirectory="$peers/$folder"
    done
}

stamp=$peers/spark-$PYSPARK-$DELTA.ready
if [ ! -e "$stamp" ]; then
    spark spark "$PYSPARK"
    jars jars "$DELTA" delta-spark_4.2_2.13 delta-storage delta-kernel-api delta-kernel-defaults delta-kernel-unitycatalog
    touch "$stamp"
fi
stamp=$peers/old-delta-$OLD_PYSPARK-$OLD_DELTA.ready
if [ ! -e "$stamp" ]; then
    spark "old-spark-$OLD_PYSPARK" "$OLD_PYSPARK"
    jars "delta-$OLD_DELTA-jars" "$OLD_DELTA" delta-spark_2.12 delta-storage
    touch "$stamp"
fi
scripts/peers.sh duckdb
