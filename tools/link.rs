//! The build script of the programs and shared libraries: how they are linked on Linux, without
//! copies of functions, without symbols, and programs at a fixed address.
//!
//! **Fixed address.** The query engine brings some 300 000 addresses in constants (vtables,
//! strings). In a position-independent program the loader corrects each of them at every start,
//! which touches 15 MB of memory and takes longer than a small query. Libraries, such as the
//! extension module of Python, have to be position-independent.
//!
//! **Smaller.** Crates and codegen units each bring copies of the same generic functions; a fifth
//! of all functions are such copies. LLD, which Rust uses on x86-64, folds identical ones
//! (`--icf=all`; Rust promises no distinct addresses for functions). `SWINGDB_SYMBOLS=1` keeps the
//! names of functions, for profilers and backtraces.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-env-changed=SWINGDB_SYMBOLS");
    let of = |name: &str| std::env::var(name).unwrap_or_default();
    let target = |name: &str| of(&format!("CARGO_CFG_TARGET_{name}"));
    if target("OS") != "linux" || target("ENV") != "gnu" {
        return;
    }
    let is_program = Path::new(&of("CARGO_MANIFEST_DIR")).join("src/main.rs").exists();
    let kind = if is_program { "rustc-link-arg-bins" } else { "rustc-cdylib-link-arg" };
    if is_program {
        println!("cargo::{kind}=-no-pie");
    }
    if std::env::var_os("SWINGDB_SYMBOLS").is_none() {
        println!("cargo::{kind}=-Wl,--strip-all");
    }
    // Another linker may have been asked for, which does not know the option.
    let flags = of("CARGO_ENCODED_RUSTFLAGS");
    let is_default =
        !["linker", "fuse-ld", "link-self-contained"].iter().any(|f| flags.contains(f));
    if target("ARCH") == "x86_64" && is_default && std::env::var_os("RUSTC_LINKER").is_none() {
        println!("cargo::{kind}=-Wl,--icf=all");
    }
}
