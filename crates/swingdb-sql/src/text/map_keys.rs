//! `MAP {'k' || i: v}`: keys that are computed get brackets. To the parser a colon binds more
//! tightly than most operators do.

use datafusion::sql::sqlparser::tokenizer::Token;

use crate::text::tokens::Pass;

/// Puts brackets around the keys of a text that are more than one word.
pub(crate) fn rewrite(pass: &mut Pass) {
    let (mut opens, mut closes) = (Vec::new(), Vec::new());
    for word in 0..pass.len() {
        if !pass.is_word(word, "map") || pass.token(word + 1) != Some(&Token::LBrace) {
            continue;
        }
        let mut key = Some(word + 2);
        for at in pass.words_after(word + 1) {
            match pass.token(at) {
                Some(Token::Comma) => key = Some(at + 1),
                Some(Token::Colon) => {
                    if let Some(start) = key.take().filter(|start| at - start > 1) {
                        opens.push(start);
                        closes.push(at);
                    }
                }
                _ => {}
            }
        }
    }
    opens.sort_unstable();
    closes.sort_unstable();
    for close in &mut closes {
        *close += opens.partition_point(|open| open <= close);
    }
    pass.insert_before(&opens, &[Token::LParen]);
    pass.insert_before(&closes, &[Token::RParen]);
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    #[test]
    fn keys_of_several_words_get_brackets() {
        let rewritten = |sql: &str| {
            let tokens = Tokenizer::new(&DuckDbDialect {}, sql).tokenize_with_location().unwrap();
            let mut pass = Pass::new(tokens);
            rewrite(&mut pass);
            pass.finish().iter().map(|token| token.token.to_string()).collect::<String>()
        };
        assert_eq!(rewritten("MAP {1: a || b, 'x': 2}"), "MAP {1: a || b, 'x': 2}");
        assert_eq!(rewritten("MAP {a || b: 1, 2: 3}"), "MAP {(a || b): 1, 2: 3}");
        assert_eq!(
            rewritten("MAP {MAP {a+b: l[1:2]}: {'s': 1}, f(x, y): 4}"),
            "MAP {(MAP {(a+b): l[1:2]}): {'s': 1}, (f(x, y)): 4}"
        );
    }
}
