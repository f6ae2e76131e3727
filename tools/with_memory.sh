#!/usr/bin/env bash
# Runs a command with room in /dev/shm: with_memory.sh COMMAND ARGUMENTS...
#
# Containers often have 64 MB there. SwingDB itself goes on in memfds then, but the tests want both
# kinds of memory. So a tmpfs is mounted for the command alone, as root or in a user namespace;
# where neither is allowed, it says what to do.
set -euo pipefail

needed=$((3 << 20)) # KiB
size=6g
shm=/dev/shm

free=$(df --output=avail -k "$shm" 2>/dev/null | tail -n 1)
if [ "${free:-0}" -ge "$needed" ]; then
    exec "$@"
fi
if [ "$(id -u)" = 0 ]; then own=(-m); else own=(-U -r -m); fi
if ! unshare "${own[@]}" mount -t tmpfs -o size=$size tmpfs "$shm" 2>/dev/null; then
    echo "The tests need 3 GB free in $shm, and no other may be mounted here." >&2
    echo "Enlarge it: mount -o remount,size=$size $shm, or docker run --shm-size=$size." >&2
    exit 1
fi
echo "$shm has less than 3 GB free: the tests get one of their own."
# shellcheck disable=SC2016 # expanded by the inner shell
exec unshare "${own[@]}" sh -c 'mount -t tmpfs -o size="$1" tmpfs "$2" && shift 2 && exec "$@"' \
    sh "$size" "$shm" "$@"
