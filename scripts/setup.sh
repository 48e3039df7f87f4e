#!/usr/bin/env bash
# Creates .venv from requirements.lock and finds a Java runtime. Does nothing if that is done. Run by `make setup`.
# PYTHON=/path/to/python chooses the interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

READY=.venv/.ready
JAR=src/lakeport/spark/native/lakeport-spark.jar
log=

say() { printf '[%3d s] %s\n' "$SECONDS" "$*" >&2; }
fail() {
    printf '%s\n' "$*" >&2
    exit 1
}
trap '[ -z "$log" ] || rm -f "$log"' EXIT

is_ready() {
    local input
    [ -e "$READY" ] && [ -x .venv/bin/python ] || return 1
    for input in requirements.lock pyproject.toml scripts/setup.sh scripts/packages.sh jvm/build.sh $(find jvm/io -name '*.java'); do
        [ ! "$input" -nt "$READY" ] || return 1
    done
    [ -e "$JAR" ] || ! command -v javac >/dev/null
}

# Runs a command that may take long, and says every five seconds what it is at. Its output is in $log.
run() {
    local process next last
    "$@" >"$log" 2>&1 &
    process=$!
    next=$((SECONDS + 5))
    while kill -0 "$process" 2>/dev/null; do
        sleep 0.2
        if [ "$SECONDS" -ge "$next" ]; then
            last=$(grep -v '^ *[-+~] \|^ *$' "$log" | tail -n 1 | cut -c 1-100)
            say "  … ${last:-still at it}"
            next=$((SECONDS + 5))
        fi
    done
    wait "$process"
}

can_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

# Installs the first of the named packages that the distribution has.
apt_install() {
    local package
    say "Reading the lists of packages (apt-get update) …"
    run apt-get update -qq || say "apt-get update failed; going on with the lists as they are."
    for package; do
        say "Installing $package with apt-get …"
        run env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$package" && return
        say "  $package cannot be installed: $(grep '^E: ' "$log" | head -n 1)"
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

# uv, by the version and the hashes in the lock: it takes a fraction of pip's time.
get_uv() {
    [ -x .venv/bin/uv ] || run "${pip[@]}" --requirement <(sed -n '/^uv==/,/[^\\]$/p' requirements.lock) || return 1
    use_pip_settings
    uv=(.venv/bin/uv pip install --python .venv/bin/python)
}

install_packages() {
    # hatchling comes from the lock, so the build needs no environment of its own.
    run "$@" --requirement requirements.lock && run "$@" --no-deps --no-build-isolation --editable .
}

if is_ready; then exit 0; fi

[ -w . ] || fail "$PWD cannot be written to, and set-up puts .venv there: copy the project to a directory of yours."
log=$(mktemp) || fail "There is no directory for temporary files: set TMPDIR to one that can be written to."

if ! python=$(find_python venv) && ! { [ -z "${PYTHON:-}" ] && can_install && install_python && python=$(find_python venv); }; then
    found=$("${PYTHON:-python3}" --version 2>/dev/null) || found="no ${PYTHON:-python3}"
    fail "Lakeport needs Python 3.11 or newer with its venv module, and found $found: install it (Debian, Ubuntu: sudo apt-get install python3-venv), or set PYTHON to its path, and run this again."
fi

if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    say "Creating .venv with $("$python" --version) …"
    run "$python" -m venv --clear .venv || fail "Creating .venv failed: $(tail -n 1 "$log")"
fi

pip=(.venv/bin/python -m pip install --disable-pip-version-check --no-input --progress-bar off --retries 2)
say "Installing $(grep -c '^[a-z]' requirements.lock) packages into .venv; Spark alone has about 450 MB …"
if ! { get_uv && install_packages "${uv[@]}"; }; then
    say "uv cannot be used; going on with pip, which takes about two minutes …"
    install_packages "${pip[@]}" || fail "The packages could not be installed: check the network, or pip's settings of an index or a proxy, and run this again. ($(grep -i error "$log" | tail -n 1 | cut -c 1-200))"
fi

if ! find_java && ! { can_install && apt_install openjdk-21-jdk-headless openjdk-17-jdk-headless && find_java; }; then
    say "No Java 17 or newer was found; only Spark needs it: install one (Debian, Ubuntu: sudo apt-get install openjdk-17-jre-headless) or set JAVA_HOME."
fi

if command -v javac >/dev/null; then
    say "Compiling the reader for Spark …"
    PYTHON=$PWD/.venv/bin/python run jvm/build.sh || fail "$(cat "$log")"
else
    say "No JDK was found: Spark reads shared tables in Python, which is slower."
fi

rm -f .venv/spark-classes.jsa # tests make it anew, of the Spark that is there now
touch "$READY"
say "Set-up is done."
