//! Gives the shared library its name for the dynamic linker. The number grows with a change that
//! programs linked before cannot bear.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libswing.so.0");
    println!("cargo:rerun-if-changed=build.rs");
}
