#!/usr/bin/env bash
# Installs the C interface: install_c.sh BUILD_DIRECTORY PREFIX; with --remove, takes it away. That of
# databases is installed too where it was built.
# $DESTDIR, if it is set, comes before every path, for packages: what is installed will be moved.
set -euo pipefail

built=$1
dest=${DESTDIR:-}
mkdir -p "$dest$2"
prefix=$(cd "$dest$2" && pwd)
here=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$here/Cargo.toml" | head -n 1)
lib=$prefix/lib include=$prefix/include/swing
if [ -n "$dest" ]; then prefix=$2; fi

if [ "${3:-}" = --remove ]; then
    rm -f "$lib"/libswing.so "$lib"/libswing.so.0 "$lib/libswing.so.$version" "$lib"/libswing.a
    rm -f "$lib"/libswingdb.so "$lib"/libswingdb.so.0 "$lib/libswingdb.so.$version"
    rm -f "$lib"/libadbc_driver_swingdb.so
    rm -f "$lib"/pkgconfig/swing.pc "$lib"/pkgconfig/swing-original.pc "$lib"/pkgconfig/swingdb.pc
    rm -f "$include"/swingdb.h
    rm -f "$include"/swing.h "$include"/swing_compat.h "$include"/fgmm.h "$include"/original/swing.h
    rmdir --ignore-fail-on-non-empty "$include/original" "$include" 2>/dev/null || true
    exit 0
fi

install -D -m 644 "$here/include/swing.h" "$include/swing.h"
install -D -m 644 "$here/include/swing_compat.h" "$include/swing_compat.h"
install -D -m 644 "$here/include/fgmm.h" "$include/fgmm.h"
install -D -m 644 "$here/include/original/swing.h" "$include/original/swing.h"
install -D -m 755 "$built/libswing_c.so" "$lib/libswing.so.$version"
ln -sf "libswing.so.$version" "$lib/libswing.so.0"
ln -sf libswing.so.0 "$lib/libswing.so"
install -D -m 644 "$built/libswing_c.a" "$lib/libswing.a"

# pc NAME DESCRIPTION HEADERS LIBRARY
pc() {
    mkdir -p "$lib/pkgconfig"
    cat > "$lib/pkgconfig/$1.pc" <<END
prefix=$prefix
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: $1
Description: $2
Version: $version
Cflags: -I"\${includedir}/$3"
Libs: -L"\${libdir}" -l$4
Libs.private: -lpthread -ldl -lm
END
}
pc swing "Copy-on-write memory shared between unrelated processes" swing swing
pc swing-original "The same, in the shape of the authors' own library" swing/original swing
if [ -e "$built/libswingdb_c.so" ]; then
    install -D -m 644 "$here/include/swingdb.h" "$include/swingdb.h"
    install -D -m 755 "$built/libswingdb_c.so" "$lib/libswingdb.so.$version"
    ln -sf "libswingdb.so.$version" "$lib/libswingdb.so.0"
    ln -sf libswingdb.so.0 "$lib/libswingdb.so"
    pc swingdb "Databases in memory that other processes take as their own" swing swingdb
fi
# Driver managers find it by its name.
if [ -e "$built/libadbc_driver_swingdb.so" ]; then
    install -D -m 755 "$built/libadbc_driver_swingdb.so" "$lib/libadbc_driver_swingdb.so"
fi
