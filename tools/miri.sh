#!/usr/bin/env bash
# Runs the tests of what makes no system call in Miri, which finds undefined behaviour: data, codecs,
# words of extents, tables of allocators. Needs a nightly toolchain with its components miri and
# rust-src. Random tests run fewer rounds there (`cfg!(miri)`).
set -euo pipefail
cd "$(dirname "$0")/.."

toolchain="${MIRI_TOOLCHAIN:-nightly}"
if ! cargo "+$toolchain" miri --version >/dev/null 2>&1; then
    echo "Miri is not installed: rustup toolchain install $toolchain --component miri,rust-src" >&2
    exit 1
fi
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/miri"
# Clocks and random numbers are the machine's.
export MIRIFLAGS="-Zmiri-disable-isolation ${MIRIFLAGS:-}"

miri() {
    echo "=== miri $*"
    cargo "+$toolchain" miri test --locked --lib -p "$@"
}

miri swing -- model:: policy::plane_choice memory::extent_words sys::sync
miri swing-tier -- units:: error:: log::codec log::format log::fuzz log::root log::state \
    log::stripe log::read scan::layout scan::numbers scan::plan scan::options probe::json
miri swing-malloc -- fast::class header:: layout:: options::
miri swing-heap -- classes:: entry:: state::
