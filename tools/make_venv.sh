#!/usr/bin/env bash
# Makes the virtual environment that tests, demo and benchmarks run in: make_venv.sh DIRECTORY
set -euo pipefail

venv=$1
here=$(cd "$(dirname "$0")/.." && pwd)

python=""
for candidate in python3.14 python3.13 python3.12 python3.11 python3; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
        2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "Python 3.11 or newer with venv is missing: apt-get install python3 python3-venv" >&2
    exit 1
fi
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    -r "$here/requirements/test.txt"
