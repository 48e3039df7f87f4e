#!/usr/bin/env bash
# Creates .venv from requirements.lock and finds a Java runtime. Run by `make setup`.
# PYTHON=/path/to/python chooses the interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }
can_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

# Installs the first of the named packages that the distribution has.
apt_install() {
    local package
    apt-get update -qq >/dev/null || say "apt-get update failed; going on with the package lists as they are."
    for package; do
        if apt-cache show "$package" >/dev/null 2>&1; then
            say "Installing $package with apt-get …"
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null
            return
        fi
    done
    return 1
}

# The first Python that is new enough; with "venv" as argument, also able to make an environment.
find_python() {
    local needs='import sys; sys.exit(sys.version_info < (3, 11))' candidate
    [ "${1:-}" = venv ] && needs="import ensurepip, venv; $needs"
    for candidate in ${PYTHON:-python3.13 python3.12 python3.11 python3}; do
        if "$candidate" -c "$needs" >/dev/null 2>&1; then
            echo "$candidate"
            return 0
        fi
    done
    return 1
}

# Debian keeps ensurepip in a package of its own; older Ubuntus have a newer Python beside their default one.
install_python() {
    local found
    if found=$(find_python); then
        apt_install "python$("$found" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    else
        apt_install python3.13-venv python3.12-venv python3.11-venv
    fi
}

java_works() {
    local version
    version=$("$1" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1)
    [ "${version:-0}" -ge 17 ]
}

find_java() {
    local candidate
    for candidate in "${JAVA_HOME:+$JAVA_HOME/bin/java}" java; do
        if [ -n "$candidate" ] && command -v "$candidate" >/dev/null && java_works "$candidate"; then return 0; fi
    done
    return 1
}

if ! python=$(find_python venv) && ! { can_install && install_python && python=$(find_python venv); }; then
    say "Lakeport needs Python 3.11 or newer with its venv module: install it (on Debian or Ubuntu: sudo apt-get install python3-venv) and run make again."
    exit 1
fi

if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    say "Creating .venv with $("$python" --version) …"
    "$python" -m venv --clear .venv
fi

say "Installing the locked dependencies …"
pip=(.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input)
"${pip[@]}" --requirement requirements.lock
# hatchling comes from the lock, so the build needs no environment of its own.
"${pip[@]}" --no-deps --no-build-isolation --editable .

if ! find_java && ! { can_install && apt_install openjdk-21-jre-headless openjdk-17-jre-headless && find_java; }; then
    say "Warning: no Java 17 or newer was found; only Spark needs it: install one (on Debian or Ubuntu: sudo apt-get install openjdk-17-jre-headless) or set JAVA_HOME."
fi

if command -v javac >/dev/null; then
    PYTHON=$PWD/.venv/bin/python jvm/build.sh
else
    say "No JDK was found: shared tables are read in Spark without its own Parquet reader, which is slower."
fi

touch .venv/.ready
