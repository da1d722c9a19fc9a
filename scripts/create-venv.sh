#!/bin/sh
# Makes .venv with the newest Python that is 3.11 or later, and uv in it.
set -eu

suits() {
    command -v "$1" >/dev/null && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

python=
for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
    if suits "$candidate"; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "Miabi needs Python 3.11 or newer, and found none called python3 or python3.11 ... python3.14." >&2
    exit 1
fi
"$python" -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-uv.lock
