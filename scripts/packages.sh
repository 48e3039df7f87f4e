# Installs packages of Python, where uv works with it, and jars; read by the other scripts (`. scripts/packages.sh`).

export UV_COMPILE_BYTECODE=1 # as pip does; else each process compiles what it imports, where PYTHONDONTWRITEBYTECODE is set

# uv knows nothing of pip's settings: give it the package index and the certificates that pip has been told.
use_pip_settings() {
    local setting
    setting=$(.venv/bin/python -m pip config get global.index-url 2>/dev/null) || setting=
    setting=${PIP_INDEX_URL:-$setting}
    [ -z "$setting" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$setting}"
    setting=$(.venv/bin/python -m pip config get global.cert 2>/dev/null) || setting=
    setting=${PIP_CERT:-$setting}
    [ -z "$setting" ] || export SSL_CERT_FILE="${SSL_CERT_FILE:-$setting}"
    # A home that cannot be written to has no room for a cache.
    mkdir -p "${UV_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/uv}" 2>/dev/null || export UV_NO_CACHE=1
}

# environment FOLDER PACKAGE...: a new environment with these packages. Few processes use it: they compile what they import.
environment() {
    local folder=$1
    shift
    "${PYTHON:-.venv/bin/python}" -m venv --clear "$folder" || return
    use_pip_settings
    UV_COMPILE_BYTECODE=0 .venv/bin/uv pip install --quiet --python "$folder/bin/python" "$@" ||
        "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-input "$@"
}

# What tests run against. Everything below works there.
peers=$PWD/.peers

say() { printf '%s\n' "$*" >&2; }

# once NAME VERSION COMMAND...: run COMMAND unless it has already put this version in place. One process at a time does it.
once() {
    local stamp=$peers/$1-$2.ready name="$1 $2" log=$peers/$1.log
    shift 2
    [ -e "$stamp" ] && return
    mkdir -p "$peers"
    {
        flock 9
        [ -e "$stamp" ] && return
        say "Building $name …"
        if "$@" >"$log" 2>&1 9>&-; then
            touch "$stamp"
        else
            say "$name could not be built:"
            tail -n 5 "$log" >&2
        fi
    } 9>"${stamp%.ready}.lock"
}

# jars FOLDER GROUP:ARTIFACT:VERSION...: these jars, without those that they ask for.
jars() {
    local folder=$peers/$1 coordinates
    shift
    rm -rf "$folder"
    mkdir -p "$folder"
    {
        echo "<project><modelVersion>4.0.0</modelVersion><groupId>x</groupId><artifactId>x</artifactId><version>1</version><dependencies>"
        for coordinates; do
            IFS=: read -r group artifact version <<<"$coordinates"
            echo "<dependency><groupId>$group</groupId><artifactId>$artifact</artifactId><version>$version</version>"
            echo "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
        done
        echo "</dependencies></project>"
    } >"$folder/pom.xml"
    MAVEN_OPTS=-XX:TieredStopAtLevel=1 mvn --batch-mode --quiet --file "$folder/pom.xml" dependency:copy-dependencies -DoutputDirectory="$folder"
}
