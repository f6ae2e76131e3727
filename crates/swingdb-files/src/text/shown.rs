//! Text in messages, and what its begin says.

/// Bytes in front of the text in files that some programs write.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
/// What helps where text is not UTF-8.
pub(crate) const OTHER_ENCODING: &str = "say another encoding, such as encoding = 'latin-1'";
/// Characters of the offending text that an error shows.
const MAX_SHOWN_CHARS: usize = 60;

/// Text as an error shows it: in quotes, escaped, not too long.
pub(crate) fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(4 * MAX_SHOWN_CHARS)]).into_owned();
    let mut chars = text.chars();
    let head: String = chars.by_ref().take(MAX_SHOWN_CHARS).collect();
    match chars.next() {
        None => format!("{head:?}"),
        Some(_) => format!("{head:?}..."),
    }
}
