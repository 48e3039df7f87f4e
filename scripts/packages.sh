# Installs Python packages; read by the other scripts (`. scripts/packages.sh`). uv does it where it works, else pip.

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

# environment FOLDER PACKAGE...: a new environment with these packages.
environment() {
    local folder=$1
    shift
    "${PYTHON:-.venv/bin/python}" -m venv --clear "$folder" || return
    use_pip_settings
    .venv/bin/uv pip install --quiet --python "$folder/bin/python" "$@" ||
        "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-input "$@"
}
