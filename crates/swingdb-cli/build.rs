//! How the program is linked on Linux: at a fixed address, without copies of functions, without
//! symbols.
//!
//! **Fixed address.** The query engine brings some 300 000 addresses in constants (vtables,
//! strings). In a position-independent program the loader corrects each of them at every start,
//! which touches 15 MB of memory and takes longer than a small query. Programs that load libraries,
//! such as Python with the extension module, are not concerned.
//!
//! **Smaller.** Crates and codegen units each bring copies of the same generic functions; a fifth
//! of all functions are such copies. LLD, which Rust uses on x86-64, folds identical ones
//! (`--icf=all`; Rust promises no distinct addresses for functions). `SWINGDB_SYMBOLS=1` keeps the
//! names of functions, for profilers and backtraces.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SWINGDB_SYMBOLS");
    let of = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if of("OS") != "linux" || of("ENV") != "gnu" {
        return;
    }
    println!("cargo::rustc-link-arg-bins=-no-pie");
    if std::env::var_os("SWINGDB_SYMBOLS").is_none() {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
    }
    // Another linker may have been asked for, which does not know the option.
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let is_default =
        !["linker", "fuse-ld", "link-self-contained"].iter().any(|f| flags.contains(f));
    if of("ARCH") == "x86_64" && is_default && std::env::var_os("RUSTC_LINKER").is_none() {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}
