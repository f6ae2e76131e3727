//! `EXCLUDE` behind the frame of a window, which the parser does not know. `EXCLUDE NO OTHERS` is
//! what a frame is without it; the others are refused.

use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;
use swingdb_common::error::{Error, Result};

use crate::text::tokens::Pass;

/// Words that a frame ends with.
const ENDS: [&str; 3] = ["row", "preceding", "following"];

/// Kinds of EXCLUDE, with a hint for each.
const KINDS: [(&str, &str); 3] = [
    ("current", "EXCLUDE CURRENT ROW; take the row off: sum(x) OVER w - x"),
    ("group", "EXCLUDE GROUP; end the frame before the row and its peers: GROUPS ... 1 PRECEDING"),
    ("ties", "EXCLUDE TIES; write a subquery that compares with the rows of the frame"),
];

/// Takes EXCLUDE NO OTHERS out.
pub(crate) fn rewrite(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let mut pass = Pass::new(tokens);
    let is_frame_end = |pass: &Pass, word: usize| ENDS.iter().any(|end| pass.is_word(word, end));
    for word in (1..pass.len()).rev() {
        if !pass.is_word(word, "exclude") || !is_frame_end(&pass, word - 1) {
            continue;
        }
        if pass.is_word(word + 1, "no") && pass.is_word(word + 2, "others") {
            pass.replace(word, 3, Vec::new());
        }
        if let Some((_, refused)) = KINDS.iter().find(|(kind, _)| pass.is_word(word + 1, kind)) {
            return Err(Error::unsupported(*refused));
        }
    }
    Ok(pass.finish())
}

#[cfg(test)]
mod tests {
    use crate::text::forms::tests::parsed;
    use crate::text::parser::parse;

    #[test]
    fn frames_without_others() {
        let frame = "SELECT sum(x) OVER (ORDER BY y ROWS BETWEEN 1 PRECEDING AND CURRENT ROW";
        assert_eq!(parsed(&format!("{frame} EXCLUDE NO OTHERS)")), format!("{frame})"));
        for kind in ["CURRENT ROW", "GROUP", "TIES"] {
            assert!(parse(&format!("{frame} EXCLUDE {kind})")).is_err(), "{kind}");
        }
        assert_eq!(parsed("SELECT * EXCLUDE (row) FROM t"), "SELECT * EXCLUDE (row) FROM t");
    }
}
