//! Links the program at a fixed address.
//!
//! The query engine brings some 300 000 addresses in constants (vtables, strings). In a
//! position-independent program the loader corrects each of them at every start, which touches
//! 15 MB of memory and takes longer than a small query. Programs that load libraries, such as
//! Python with the extension module, are not concerned.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let environment = std::env::var("CARGO_CFG_TARGET_ENV").unwrap_or_default();
    if target == "linux" && environment == "gnu" {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
