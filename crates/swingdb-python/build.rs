//! How the extension module, and the C library of databases, are linked on Linux: without copies of
//! functions, without symbols. The command line's build script has the reasons.

fn main() {
    println!("cargo::rerun-if-env-changed=SWINGDB_SYMBOLS");
    let of = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if of("OS") != "linux" || of("ENV") != "gnu" {
        return;
    }
    if std::env::var_os("SWINGDB_SYMBOLS").is_none() {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--strip-all");
    }
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let is_default =
        !["linker", "fuse-ld", "link-self-contained"].iter().any(|f| flags.contains(f));
    if of("ARCH") == "x86_64" && is_default && std::env::var_os("RUSTC_LINKER").is_none() {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--icf=all");
    }
}
