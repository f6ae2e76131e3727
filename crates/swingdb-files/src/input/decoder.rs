//! Decoders of files that others wrote: a damaged file may make one panic instead of saying so.
//!
//! [`run`] catches such a panic, and a panic hook does not print it: the caller makes an error
//! about the file of it. The hook is installed with the first decoder and calls the one before it
//! for all panics but these: on a thread that decodes, in code of a decoder's library.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo, catch_unwind, resume_unwind};
use std::sync::Once;

/// The libraries that decode, and those that they decode with. Panics of the standard library name
/// the caller's line where they can.
const LIBRARIES: [&str; 16] = [
    PARQUET,
    "arrow-array",
    "arrow-buffer",
    "arrow-cast",
    "arrow-data",
    "arrow-ipc",
    "arrow-schema",
    "arrow-select",
    "brotli-decompressor",
    "bytes",
    "flate2",
    "lz4_flex",
    "miniz_oxide",
    "snap",
    "zlib-rs",
    "zstd-safe",
];
const PARQUET: &str = "parquet";
/// Where the standard library was built.
const STANDARD: &str = "/rustc/";

thread_local! {
    /// Whether this thread decodes.
    static DECODING: Cell<bool> = const { Cell::new(false) };
    /// The panic that was not printed.
    static UNPRINTED: RefCell<Option<Unprinted>> = const { RefCell::new(None) };
}

struct Unprinted {
    text: String,
    in_parquet: bool,
}

/// A panic of what was to decode.
pub(crate) struct Panic {
    payload: Box<dyn Any + Send>,
    /// `None` where no decoder's library panicked, or another hook took the place of this module's.
    unprinted: Option<Unprinted>,
}

impl Panic {
    /// Whether the library for Parquet panicked.
    pub(crate) fn is_in_parquet(&self) -> bool {
        self.unprinted.as_ref().is_some_and(|unprinted| unprinted.in_parquet)
    }

    /// Whether the panic may be one of a decoder: those of statements that end are none.
    pub(crate) fn has_text(&self) -> bool {
        self.payload.is::<String>() || self.payload.is::<&str>()
    }

    /// Goes on with a panic that is no decoder's, and prints it first where that was left out.
    pub(crate) fn resume(self) -> ! {
        if let Some(Unprinted { text, .. }) = self.unprinted {
            // Only for the hooks.
            let _ = catch_unwind(|| panic!("{text}"));
        }
        resume_unwind(self.payload)
    }
}

/// Runs a decoder, or a step of one.
pub(crate) fn run<T>(decode: impl FnOnce() -> T) -> Result<T, Panic> {
    install();
    let marked = Marked::new();
    let result = catch_unwind(AssertUnwindSafe(decode));
    drop(marked);
    result.map_err(|payload| Panic { payload, unprinted: UNPRINTED.take() })
}

/// The mark of a thread that decodes.
struct Marked {
    before: bool,
}

impl Marked {
    fn new() -> Self {
        Self { before: DECODING.replace(true) }
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        DECODING.set(self.before);
    }
}

fn install() {
    static INSTALLED: Once = Once::new();
    // A thread that unwinds cannot change the hook.
    if INSTALLED.is_completed() || std::thread::panicking() {
        return;
    }
    INSTALLED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !is_kept(info) {
                before(info);
            }
        }));
    });
}

/// Keeps a decoder's panic instead of printing it. The second one, while the first unwinds, ends
/// the process, and so it is printed.
fn is_kept(info: &PanicHookInfo<'_>) -> bool {
    let is_marked = DECODING.try_with(Cell::get).unwrap_or(false);
    let Some(location) = info.location().filter(|_| is_marked) else { return false };
    let Some(in_parquet) = decoder_of(location.file()) else { return false };
    let text = format!("{} (at {location})", info.payload_as_str().unwrap_or("no text"));
    let keep = |slot: &RefCell<Option<Unprinted>>| match slot.try_borrow_mut() {
        Ok(mut slot) if slot.is_none() => {
            *slot = Some(Unprinted { text, in_parquet });
            true
        }
        _ => false,
    };
    UNPRINTED.try_with(keep).unwrap_or(false)
}

/// Whether a source file is a decoder's: `Some(true)` for that of Parquet.
fn decoder_of(path: &str) -> Option<bool> {
    let is = |folder: &str, library: &str| {
        let rest = folder.strip_prefix(library);
        rest.is_some_and(|rest| {
            let version = rest.strip_prefix('-').and_then(|version| version.bytes().next());
            rest.is_empty() || version.is_some_and(|first| first.is_ascii_digit())
        })
    };
    // The package's folder is the last one of these names: `parquet-59.3.2/src/file/reader.rs`.
    let package = path.rfind("/src/").map(|end| &path[..end]);
    let package = package.and_then(|folders| folders.rsplit('/').next()).unwrap_or_default();
    let library = LIBRARIES.into_iter().find(|library| is(package, library));
    match library {
        Some(library) => Some(library == PARQUET),
        None => path.starts_with(STANDARD).then_some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_libraries_of_decoders_are_quiet() {
        let registry = "/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f";
        let cases = [
            ("parquet-59.3.2/src/arrow/array_reader/mod.rs", Some(true)),
            ("bytes-1.12.1/src/bytes.rs", Some(false)),
            ("arrow-buffer-59.3.2/src/buffer/immutable.rs", Some(false)),
            ("datafusion-datasource-parquet-55.2.0/src/opener/mod.rs", None),
            ("parquet-tools-1.0.0/src/lib.rs", None),
            ("swingdb-files-0.1.0/src/parquet/scan.rs", None),
        ];
        for (path, expected) in cases {
            assert_eq!(decoder_of(&format!("{registry}/{path}")), expected, "{path}");
        }
        assert_eq!(decoder_of("vendor/parquet/src/file/mod.rs"), Some(true));
        assert_eq!(decoder_of("crates/swingdb-files/src/parquet/scan.rs"), None);
        assert_eq!(decoder_of("/rustc/0123abc/library/alloc/src/raw_vec.rs"), Some(false));
        assert_eq!(decoder_of("src/main.rs"), None);
    }

    #[test]
    fn a_decoders_panic_is_kept_and_others_go_to_the_hook() {
        let short = bytes::Bytes::from_static(b"abc");
        let decoder = || drop(short.slice(0..7));
        let panic = run(decoder).unwrap_err();
        assert!(panic.unprinted.is_some() && panic.has_text() && !panic.is_in_parquet());
        // The mark is gone, and so is what was kept.
        assert!(!DECODING.get() && UNPRINTED.take().is_none());
        let own = run::<()>(|| panic!("our own")).unwrap_err();
        assert!(own.unprinted.is_none() && own.has_text());
        let resumed = catch_unwind(AssertUnwindSafe(|| own.resume())).unwrap_err();
        assert_eq!(resumed.downcast_ref(), Some(&"our own"));
        let other = run::<()>(|| resume_unwind(Box::new(7))).unwrap_err();
        assert!(!other.has_text());
        assert!(matches!(run(|| 7), Ok(7)));
        // Not on a thread that does not decode.
        assert!(catch_unwind(AssertUnwindSafe(decoder)).is_err());
        assert!(UNPRINTED.take().is_none());
    }
}
