//! Amounts of bytes as settings give them: [`parse_bytes`].

use swingdb_common::error::{Error, Result};

/// `4GB`, `512 MiB`, or a number of bytes.
pub fn parse_bytes(text: &str) -> Result<usize> {
    let wrong = || Error::plan(format!("{text:?} is no amount of memory, as '4GB' is one"));
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..digits].parse().map_err(|_| wrong())?;
    let factor = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return Err(wrong()),
    };
    Ok((number * factor) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_memory() {
        assert_eq!(parse_bytes("4GB").unwrap(), 4_000_000_000);
        assert_eq!(parse_bytes("1.5 MiB").unwrap(), 1_572_864);
        assert_eq!(parse_bytes("123").unwrap(), 123);
        assert!(parse_bytes("much").is_err());
        assert!(parse_bytes("4 parsec").is_err());
    }
}
