//! Lightweight compression of blocks: [`encode`] when a block is written, [`decode`] when it is
//! read.
//!
//! A block is a buffer of a column: numbers of one width, views of strings, or bytes. Which method
//! is used is chosen for each block, by a sample; where none saves enough, `encode` says so and the
//! block is stored as it is. An encoded block says itself what it is; only its length when decoded
//! has to be known.
//!
//! | first byte | method | for |
//! |---|---|---|
//! | 1 | packed numbers (`numbers`): offsets or differences of each 1024, packed | numbers |
//! | 2 | dictionary (`dictionary`): up to 4096 values, and packed places | numbers, short strings |
//! | 3 | views (`views`): packed lengths, short strings, first bytes of long ones | views |
//! | 4 | LZ4 (`bytes`), in frames of 256 KiB | bytes, and what the others do not suit |
//!
//! A vector whose numbers are all the same, or grow by the same step, takes no bits beyond its
//! header; so there is no method for runs. Sources: frame of reference and differences with packed
//! bits are from Zukowski, Heman, Nes, Boncz, "Super-Scalar RAM-CPU Cache Compression" (ICDE 2006),
//! without its exceptions; choosing by a sample is from Kuschewski, Sauerwein, Alhomssi, Leis,
//! "BtrBlocks" (SIGMOD 2023); views are those of Arrow's columnar format.
//!
//! # What holds
//! * `decode(encode(bytes)) == bytes` for every input and every [`Shape`]: a shape that is wrong
//!   costs room, never bytes.
//! * Decoding trusts nothing. Each length is checked before it is used, memory that is taken is
//!   bounded by the length of the result, and any input ends with a result or a [`PackError`]. The
//!   log's checksum is checked before; this is the second line.
//! * Nothing here is unsafe, knows a file, or starts a thread.
//!
//! ```
//! use swing_tier::pack::{Shape, decode, encode};
//!
//! let numbers: Vec<u8> = (0..10_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
//! let encoded = encode(&numbers, Shape::Numbers { width: 4 }).expect("it pays");
//! assert!(encoded.len() * 4 < numbers.len());
//! let mut decoded = vec![0; numbers.len()];
//! decode(&encoded, &mut decoded)?;
//! assert_eq!(decoded, numbers);
//! # Ok::<(), swing_tier::pack::PackError>(())
//! ```

mod bits;
mod bytes;
mod choose;
mod dictionary;
mod number;
mod numbers;
mod reader;
mod views;

pub use choose::{Shape, decode, encode};
pub use reader::PackError;
