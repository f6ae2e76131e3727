//! `FROM t WHERE i = 3`: a query that begins with FROM and has no SELECT, but other clauses.
//!
//! The parser ends such a query behind its tables, so `SELECT *` is put before the FROM, which is
//! what DuckDB means by it. `FROM t SELECT i WHERE i < 3` and `FROM t` are the parser's own.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::text::query_starts;
use crate::text::tokens::Pass;

/// Puts `SELECT *` before each FROM that needs it.
pub(crate) fn rewrite(pass: &mut Pass) {
    let starts = query_starts::of_queries(pass);
    let is_bare =
        |word: &usize| pass.keyword(*word) == Some(Keyword::FROM) && has_clauses(pass, *word);
    let found: Vec<usize> = starts.into_iter().filter(is_bare).collect();
    pass.insert_before(&found, &[Token::make_keyword("SELECT"), Token::Mul]);
}

/// Whether clauses other than SELECT follow the tables of a FROM.
fn has_clauses(pass: &Pass, from: usize) -> bool {
    use Keyword::{
        EXCEPT, FETCH, GROUP, HAVING, INTERSECT, LIMIT, OFFSET, ORDER, QUALIFY, SELECT, UNION,
        WHERE, WINDOW,
    };
    let mut found = false;
    for word in pass.words_after(from) {
        match pass.keyword(word) {
            Some(SELECT) => return false,
            Some(UNION | EXCEPT | INTERSECT) => return found,
            Some(WHERE | GROUP | HAVING | QUALIFY | WINDOW | ORDER | LIMIT | OFFSET | FETCH) => {
                found = true;
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::text::forms::tests::parsed;

    #[test]
    fn the_select_is_put_before() {
        for (given, expected) in [
            ("FROM t WHERE i = 3", "SELECT * FROM t WHERE i = 3"),
            ("FROM t ORDER BY i LIMIT 2", "SELECT * FROM t ORDER BY i LIMIT 2"),
            ("FROM a, b JOIN c USING (k) WHERE x", "SELECT * FROM a, b JOIN c USING(k) WHERE x"),
            (
                "WITH c AS (FROM t WHERE i) FROM c WHERE j UNION FROM d LIMIT 1",
                "WITH c AS (SELECT * FROM t WHERE i) SELECT * FROM c WHERE j \
                 UNION SELECT * FROM d LIMIT 1",
            ),
            ("INSERT INTO t FROM u WHERE i", "INSERT INTO t AS t SELECT * FROM u WHERE i"),
            ("INSERT INTO t (a) FROM u LIMIT 1", "INSERT INTO t (a) SELECT * FROM u LIMIT 1"),
            (
                "SELECT x FROM (FROM t GROUP BY ALL) WHERE i IN (FROM u WHERE k)",
                "SELECT x FROM (SELECT * FROM t GROUP BY ALL) \
                 WHERE i IN (SELECT * FROM u WHERE k)",
            ),
        ] {
            assert_eq!(parsed(given), expected);
        }
    }

    #[test]
    fn others_stay() {
        for same in [
            "FROM t",
            "FROM t SELECT i WHERE i < 3 LIMIT 1",
            "SELECT a IS DISTINCT FROM b FROM t WHERE a IS NOT DISTINCT FROM b",
            "SELECT EXTRACT(YEAR FROM d), TRIM(BOTH ' ' FROM s) FROM t",
            "SELECT a FROM t WHERE SUBSTRING(s FROM 2) = ''",
            "DELETE FROM t WHERE a = 1",
            "WITH a AS (SELECT 1) UPDATE t SET x = (1) FROM u WHERE u.i = 1",
        ] {
            assert_eq!(parsed(same), same);
        }
    }
}
