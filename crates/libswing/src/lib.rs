//! `libswing.so` and `libswing.a`: what `include/swing.h` declares, and functions of the C library
//! whose buffers may lie in areas ([`swing_calls`]).
//!
//! A program that is linked with this library calls these, and so do the libraries it uses, because
//! the dynamic linker finds them before those of the C library.
//!
//! This is a crate of its own so that others that contain the C interface (the Python extension) do
//! not define `read`.

mod masks;

use swing_capi as _;

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = swing_calls::look_up;
