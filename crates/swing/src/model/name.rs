//! Names of areas and how they become names of folders.
//!
//! A name is any UTF-8 text of 1 to 200 bytes. The folder of an area is its name with the few bytes
//! a file name cannot hold (and those this crate reserves) written as `%XX`; the mapping is one to
//! one, so two names never meet in one folder. A folder name that starts with a dot is never an
//! area's name: those are the crate's own (unnamed areas, half-made and half-removed ones).
//!
//! ```
//! use swing::AreaName;
//! let name = AreaName::new("Taxi/2026 üéñ").unwrap();
//! assert_eq!(name.as_str(), "Taxi/2026 üéñ");
//! assert!(AreaName::new("").is_err());
//! ```

use std::fmt;

use thiserror::Error;

/// The longest name, in bytes of UTF-8.
pub const MAX_NAME_BYTES: usize = 200;

/// The longest folder name after encoding; below the 255 bytes a file name may have.
const MAX_FOLDER_BYTES: usize = 240;

/// The validated name of an area.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AreaName(String);

/// Why a text cannot be an area's name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NameError {
    /// The empty text names nothing.
    #[error("a name needs at least one character")]
    Empty,
    /// The name, or its encoding as a folder name, is too long for the file system.
    #[error(
        "the name has {bytes} bytes ({folder_bytes} as a folder); at most {MAX_NAME_BYTES} (240) \
         are possible"
    )]
    TooLong {
        /// Bytes of UTF-8 in the name.
        bytes: usize,
        /// Bytes its folder name would have.
        folder_bytes: usize,
    },
}

impl AreaName {
    /// Checks a name: 1 to 200 bytes of UTF-8, any characters.
    pub fn new(name: &str) -> Result<Self, NameError> {
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        let folder_bytes = encode(name).len();
        if name.len() > MAX_NAME_BYTES || folder_bytes > MAX_FOLDER_BYTES {
            return Err(NameError::TooLong { bytes: name.len(), folder_bytes });
        }
        Ok(Self(name.to_owned()))
    }

    /// The name as the user wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of this area's folder in its namespace.
    pub(crate) fn folder(&self) -> String {
        encode(&self.0)
    }

    /// The area name a folder stands for; `None` for the crate's own folders and for what no area
    /// could have made.
    pub(crate) fn from_folder(folder: &str) -> Option<Self> {
        let name = Self::new(&decode(folder)?).ok()?;
        (name.folder() == folder).then_some(name)
    }
}

impl fmt::Display for AreaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for AreaName {
    type Err = NameError;
    fn from_str(s: &str) -> Result<Self, NameError> {
        Self::new(s)
    }
}

fn encode(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for (i, c) in name.char_indices() {
        let reserved = matches!(c, '/' | '%' | '\0'..='\x1f' | '\x7f') || (i == 0 && c == '.');
        if reserved {
            out.push_str(&format!("%{:02X}", c as u32));
        } else {
            out.push(c);
        }
    }
    out
}

fn decode(folder: &str) -> Option<String> {
    if folder.starts_with('.') {
        return None;
    }
    let mut out = String::with_capacity(folder.len());
    let mut rest = folder;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let hex = rest.get(at + 1..at + 3)?;
        out.push(char::from(u8::from_str_radix(hex, 16).ok()?));
        rest = &rest[at + 3..];
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_round_trip() {
        for name in [
            "a",
            ".",
            "..",
            "a/b",
            "%",
            "%2F",
            "tab\tnew\nline",
            "ünï",
            "日本語",
            " ",
            ".unnamed-1",
            "'\"\\*?",
        ] {
            let n = AreaName::new(name).unwrap();
            let folder = n.folder();
            assert!(
                !folder.starts_with('.') && !folder.contains('/') && !folder.contains('\0'),
                "{folder}"
            );
            assert_eq!(AreaName::from_folder(&folder), Some(n));
        }
    }

    #[test]
    fn two_names_never_share_a_folder() {
        let mut rng = fastrand::Rng::with_seed(7);
        let alphabet: Vec<char> = "a%2Ff./\u{1}é".chars().collect();
        let mut seen = std::collections::HashMap::new();
        for _ in 0..if cfg!(miri) { 20 } else { 20_000 } {
            let len = rng.usize(1..6);
            let s: String = (0..len).map(|_| alphabet[rng.usize(..alphabet.len())]).collect();
            let folder = AreaName::new(&s).unwrap().folder();
            if let Some(other) = seen.insert(folder, s.clone()) {
                assert_eq!(other, s);
            }
        }
    }

    #[test]
    fn lengths_are_limited() {
        assert_eq!(AreaName::new(""), Err(NameError::Empty));
        assert!(AreaName::new(&"a".repeat(200)).is_ok());
        assert!(AreaName::new(&"a".repeat(201)).is_err());
        assert!(AreaName::new(&"/".repeat(100)).is_err());
        assert!("x".parse::<AreaName>().is_ok());
    }

    #[test]
    fn foreign_folders_are_no_areas() {
        for folder in [".", "..", ".unnamed-1", "%2", "%zz", "%61", "a%2f"] {
            assert_eq!(AreaName::from_folder(folder), None, "{folder}");
        }
    }
}
