#!/usr/bin/env bash
# Runs tests of the memory layers once for each choice that only buys speed, with that one switched
# off, and once with all of them off (crates/swing/src/policy/switches.rs):
# test_switches.sh [NAME...], where `all` stands for all of them. Nothing but time and memory may
# depend on any of them.
set -euo pipefail

all=$(sed -n 's/^    ("\([a-z-]*\)", |s|.*/\1/p' crates/swing/src/policy/switches.rs | paste -sd ' ')
test -n "$all" || { echo "no switches found" >&2; exit 1; }
read -ra names <<<"${*:-$all all}"
crates=(-p swing -p swing-malloc -p swing-calls -p swing-preload)
tests=(model tracked_model tracked live ahead ahead_fork areas fork lifecycle kill pinned races growth
    malloc_model programs)
for without in "${names[@]}"; do
    echo "== without $without"
    test "$without" != all || without=${all// /,}
    SWING_WITHOUT=$without cargo test --release --locked --quiet "${crates[@]}" --lib "${tests[@]/#/--test=}"
done
