//! `SELECT ... FROM t WHERE ... USING SAMPLE 10%`: DuckDB's clause behind all others, which means a
//! sample of what FROM names, before WHERE.
//!
//! It becomes `FROM t TABLESAMPLE (10 PERCENT)`, and what DuckDB allows behind TABLESAMPLE becomes
//! what the parser knows: `10%`, `RESERVOIR(5 ROWS)`, `10% (SYSTEM)`. Samples of joins stay as they
//! are, and so the parser refuses them.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::text::tokens::Pass;

const METHODS: [&str; 3] = ["RESERVOIR", "BERNOULLI", "SYSTEM"];

/// Rewrites all samples of a text.
pub(crate) fn rewrite(pass: &mut Pass) {
    let mut word = 0;
    while word < pass.len() {
        if pass.keyword(word) == Some(Keyword::TABLESAMPLE) {
            if let Some((sample, end)) = Sample::read(pass, word + 1) {
                pass.replace(word, end - word, sample.tokens());
            }
        } else if pass.keyword(word) == Some(Keyword::USING)
            && pass.is_word(word + 1, "SAMPLE")
            && let Some((sample, end)) = Sample::read(pass, word + 2)
            && let Some(relation) = end_of_relation(pass, word)
        {
            pass.replace(word, end - word, Vec::new());
            // Behind the relation, where there may be nothing else.
            let last = pass.token(relation - 1).cloned();
            pass.replace(relation - 1, 1, last.into_iter().chain(sample.tokens()).collect());
        }
        word += 1;
    }
}

/// How large a sample is, and how it is taken.
struct Sample {
    method: Option<String>,
    number: Token,
    unit: Option<&'static str>,
    seed: Option<Token>,
}

impl Sample {
    /// What begins at a word, and the word behind it.
    fn read(pass: &Pass, start: usize) -> Option<(Self, usize)> {
        let mut at = start;
        let next = |at: &mut usize, token: &Token| {
            let found = pass.token(*at) == Some(token);
            *at += usize::from(found);
            found
        };
        let number = |at: &mut usize| {
            let number = pass.token(*at).filter(|token| matches!(token, Token::Number(..)))?;
            *at += 1;
            Some(number.clone())
        };
        let method = |at: &mut usize| {
            let method = METHODS.into_iter().find(|method| pass.is_word(*at, method))?;
            *at += 1;
            Some(method.to_string())
        };
        let mut sample =
            Self { method: method(&mut at), number: Token::EOF, unit: None, seed: None };
        let in_brackets = next(&mut at, &Token::LParen);
        sample.number = number(&mut at)?;
        sample.unit = match pass.token(at) {
            Some(Token::Mod) => Some("PERCENT"),
            _ if pass.is_word(at, "PERCENT") => Some("PERCENT"),
            _ if pass.is_word(at, "ROWS") => Some("ROWS"),
            _ => None,
        };
        at += usize::from(sample.unit.is_some());
        if in_brackets {
            next(&mut at, &Token::RParen).then_some(())?;
        } else if next(&mut at, &Token::LParen) {
            sample.method = Some(method(&mut at)?);
            if next(&mut at, &Token::Comma) {
                sample.seed = Some(number(&mut at)?);
            }
            next(&mut at, &Token::RParen).then_some(())?;
        }
        if pass.is_word(at, "REPEATABLE") {
            at += 1;
            next(&mut at, &Token::LParen).then_some(())?;
            sample.seed = Some(number(&mut at)?);
            next(&mut at, &Token::RParen).then_some(())?;
        }
        Some((sample, at))
    }

    /// `TABLESAMPLE BERNOULLI (10 PERCENT) REPEATABLE (1)`; a reservoir is what there is without a
    /// method.
    fn tokens(self) -> Vec<Token> {
        let word = Token::make_keyword;
        let mut tokens = vec![word("TABLESAMPLE")];
        tokens.extend(self.method.filter(|name| name != "RESERVOIR").map(|name| word(&name)));
        tokens.extend([Token::LParen, self.number]);
        tokens.extend(self.unit.map(word));
        tokens.push(Token::RParen);
        if let Some(seed) = self.seed {
            tokens.extend([word("REPEATABLE"), Token::LParen, seed, Token::RParen]);
        }
        tokens
    }
}

/// The word behind the one relation of the query that a clause belongs to.
fn end_of_relation(pass: &Pass, clause: usize) -> Option<usize> {
    use Keyword::{FROM, GROUP, HAVING, JOIN, QUALIFY, SELECT, USING, WHERE, WINDOW};
    let from = pass.words_before(clause).find(|word| {
        let comparison = word.checked_sub(1).is_some_and(|before| pass.is_word(before, "DISTINCT"));
        pass.keyword(*word) == Some(FROM) && !comparison
    })?;
    for word in pass.words_after(from) {
        match (pass.keyword(word), pass.token(word)) {
            (Some(JOIN), _) | (_, Some(Token::Comma)) => return None,
            (Some(WHERE | GROUP | HAVING | QUALIFY | WINDOW | SELECT | USING), _) => {
                return Some(word);
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::text::forms::tests::parsed;

    #[test]
    fn the_sample_goes_to_the_relation() {
        for (given, expected) in [
            ("SELECT a FROM t USING SAMPLE 5", "SELECT a FROM t TABLESAMPLE (5)"),
            (
                "SELECT a FROM t AS x WHERE (b) > 1 GROUP BY a USING SAMPLE 10% ORDER BY a",
                "SELECT a FROM t AS x TABLESAMPLE (10 PERCENT) WHERE (b) > 1 GROUP BY a ORDER BY a",
            ),
            (
                "SELECT a FROM (SELECT b FROM t USING SAMPLE reservoir(5 ROWS)) x LIMIT 1",
                "SELECT a FROM (SELECT b FROM t TABLESAMPLE (5 ROWS)) x LIMIT 1",
            ),
            (
                "FROM range(1, 5) WHERE a IS DISTINCT FROM b USING SAMPLE bernoulli(2.5%)",
                "SELECT * FROM range(1, 5) TABLESAMPLE BERNOULLI (2.5 PERCENT) \
                 WHERE a IS DISTINCT FROM b",
            ),
            (
                "SELECT a FROM t TABLESAMPLE reservoir(10%), u",
                "SELECT a FROM t TABLESAMPLE (10 PERCENT), u",
            ),
            (
                "SELECT a FROM t USING SAMPLE 3 (bernoulli)",
                "SELECT a FROM t TABLESAMPLE BERNOULLI (3)",
            ),
        ] {
            assert_eq!(parsed(given), expected);
        }
        for same in ["DELETE FROM t USING sample WHERE t.a = sample.a", "SELECT sample FROM t"] {
            assert_eq!(parsed(same), same);
        }
    }
}
