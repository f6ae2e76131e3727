//! `WITH RECURSIVE t(a, b) USING KEY (a) AS (...)`, which the parser does not know, and which is
//! refused: a recursive query sees the rows of its last step, and all rows are kept.

use datafusion::sql::sqlparser::tokenizer::Token;
use swingdb_common::error::{Error, Result};

use crate::text::tokens::Pass;

/// Refuses the clause.
pub(crate) fn refuse(pass: &Pass) -> Result<()> {
    for word in 1..pass.len() {
        let begins = pass.is_word(word, "using")
            && pass.is_word(word + 1, "key")
            && pass.token(word + 2) == Some(&Token::LParen);
        if !begins {
            continue;
        }
        let end = (word + 3..pass.len()).find(|at| pass.token(*at) == Some(&Token::RParen));
        // A PIVOT may use an aggregate that is called so, and then gives it a name.
        let of_query = end.is_some_and(|end| {
            pass.is_word(end + 1, "as") && pass.token(end + 2) == Some(&Token::LParen)
        });
        if of_query {
            return Err(Error::unsupported(
                "USING KEY of a recursive query; number the steps, and take the last row of each \
                 key: SELECT DISTINCT ON (key) ... ORDER BY step DESC",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::text::parser::parse;

    #[test]
    fn keys_of_recursive_queries_are_refused() {
        let sql = "WITH RECURSIVE t(a, b) USING KEY (a) AS (SELECT 1, 2 UNION SELECT a, b FROM t) \
                   FROM t";
        assert!(parse(sql).unwrap_err().to_string().contains("USING KEY"));
        assert!(parse("PIVOT t ON s USING key(x) AS k").is_ok());
    }
}
