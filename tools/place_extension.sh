#!/usr/bin/env bash
# Puts the extension module that cargo built where Python finds it: place_extension.sh BUILD_DIRECTORY
#
# `maturin develop` would do the same with a second build of everything below the bindings, because it
# selects other packages than a build of the whole workspace does.
set -euo pipefail

built=$1/lib_internal.so
here=$(cd "$(dirname "$0")/.." && pwd)
placed=$here/python/swingdb/_internal.abi3.so

if [ ! -f "$built" ]; then
    echo "$built is missing: run cargo build --release --workspace" >&2
    exit 1
fi
# A new file, not new contents: a process that still runs the old one must not see it change.
if ! cmp --quiet "$built" "$placed"; then
    cp "$built" "$placed.new"
    mv "$placed.new" "$placed"
fi
