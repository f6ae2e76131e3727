//! Texts of statements in PostgreSQL's own forms, in the engine's: [`rewrite`].
//!
//! | PostgreSQL | engine |
//! |---|---|
//! | `pg_catalog.pg_class`, `pg_catalog.format_type(...)` | without the schema |
//! | `OPERATOR(pg_catalog.~)` | `~` |
//! | `COLLATE pg_catalog.default` | nothing: it is how texts are compared anyway |
//! | `'t'::regclass` | `regclass_of_1('t')`, its number |
//! | `x::regclass` | `x`: a number stays one |
//! | `x::oid`, `x::"char"`, `x::name` | `x::BIGINT`, `x::VARCHAR` |
//! | `'{0}'` beside `pg_policy`, an array | `[0]` |
//! | `current_user` | `pg_current_user_0()` |
//! | `obj_description(x, 'pg_class')` | `obj_description_2(...)`, by number of arguments |

use swingdb::cutter::{self, pieces};

/// The functions of `pg_catalog`. Each has a name for each number of arguments.
const FUNCTIONS: [&str; 34] = [
    "col_description",
    "format_type",
    "has_any_column_privilege",
    "has_database_privilege",
    "has_schema_privilege",
    "has_sequence_privilege",
    "has_table_privilege",
    "obj_description",
    "pg_current_user",
    "pg_encoding_to_char",
    "pg_function_is_visible",
    "pg_get_constraintdef",
    "pg_get_expr",
    "pg_get_function_arguments",
    "pg_get_function_identity_arguments",
    "pg_get_function_result",
    "pg_get_indexdef",
    "pg_get_partkeydef",
    "pg_get_ruledef",
    "pg_get_serial_sequence",
    "pg_get_statisticsobjdef_columns",
    "pg_get_triggerdef",
    "pg_get_userbyid",
    "pg_get_viewdef",
    "pg_is_in_recovery",
    "pg_relation_is_publishable",
    "pg_session_user",
    "pg_size_pretty",
    "pg_table_is_visible",
    "pg_tablespace_location",
    "pg_type_is_visible",
    "regclass_of",
    "shobj_description",
    "to_regclass",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Blank,
    Word,
    Text,
    Sign,
}

type Token<'a> = (Kind, &'a str);

fn tokens(sql: &str) -> Vec<Token<'_>> {
    let (mut found, mut at) = (Vec::<Token<'_>>::new(), 0);
    for piece in pieces(sql) {
        let kind = match piece.kind {
            cutter::Kind::Blank | cutter::Kind::Comment => Kind::Blank,
            cutter::Kind::Word => Kind::Word,
            cutter::Kind::Quoted if piece.text.starts_with('"') => Kind::Word,
            cutter::Kind::Quoted => Kind::Text,
            cutter::Kind::Parameter | cutter::Kind::Sign => Kind::Sign,
        };
        at += piece.text.len();
        match found.last_mut() {
            Some(last) if *last == (Kind::Sign, ":") && piece.text == ":" => {
                last.1 = &sql[at - 2..at];
            }
            _ => found.push((kind, piece.text)),
        }
    }
    found
}

/// The statement as the engine takes it.
pub fn rewrite(sql: &str) -> String {
    let tokens = tokens(sql);
    let of_policies = tokens.iter().any(|token| is(Some(token), "pg_policy"));
    let mut out: Vec<String> = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        if of_policies && tokens[at].1 == "'{0}'" {
            out.push("[0]".to_string());
            at += 1;
        } else {
            at += reduce(&tokens[at..], &mut out);
        }
    }
    out.concat()
}

/// The same token, whatever its case and quotes.
fn is(token: Option<&Token<'_>>, word: &str) -> bool {
    token.is_some_and(|(kind, text)| match kind {
        Kind::Word => text.trim_matches('"').eq_ignore_ascii_case(word),
        _ => *text == word,
    })
}

/// Takes the next tokens and writes what stands for them; how many were taken.
fn reduce(tokens: &[Token<'_>], out: &mut Vec<String>) -> usize {
    let (kind, text) = tokens[0];
    let next = |count: usize| tokens.get(count);
    if is(next(0), "pg_catalog") && is(next(1), ".") {
        return 2;
    }
    if is(next(0), "operator") && is(next(1), "(") && is(next(2), "pg_catalog") {
        let end = tokens.iter().position(|token| token.1 == ")").unwrap_or(tokens.len() - 1);
        out.extend(tokens[4.min(end)..end].iter().map(|token| token.1.to_string()));
        return end + 1;
    }
    if is(next(0), "collate") && is(next(2), "pg_catalog") {
        return 5.min(tokens.len());
    }
    if text == "::" {
        return cast(tokens, out);
    }
    let is_name = kind == Kind::Word && !text.starts_with('"');
    let follows_point = out.last().is_some_and(|last| last == ".");
    if is_name && !follows_point && !is(next(1), ".") {
        let lower = text.to_lowercase();
        let is_call = is(next(1), "(");
        if matches!(lower.as_str(), "current_user" | "session_user") && !is_call {
            out.push(format!("pg_{lower}_0()"));
            return 1;
        }
        if is_call && FUNCTIONS.contains(&lower.as_str()) {
            out.push(format!("{lower}_{}", arguments(&tokens[1..])));
            return 1;
        }
    }
    out.push(text.to_string());
    1
}

/// A cast to a type of PostgreSQL's.
fn cast(tokens: &[Token<'_>], out: &mut Vec<String>) -> usize {
    let skipped = if is(tokens.get(1), "pg_catalog") && is(tokens.get(2), ".") { 2 } else { 0 };
    let Some((Kind::Word, name)) = tokens.get(1 + skipped) else {
        out.push("::".to_string());
        return 1;
    };
    let taken = 2 + skipped;
    match name.trim_matches('"').to_lowercase().as_str() {
        "regclass" => {
            if let Some(text) = out.last_mut().filter(|last| last.starts_with('\'')) {
                *text = format!("regclass_of_1({text})");
            }
        }
        "regtype" | "regproc" | "regprocedure" | "regnamespace" | "regrole" => {}
        "oid" | "xid" => out.push("::BIGINT".to_string()),
        "char" | "name" | "text" => out.push("::VARCHAR".to_string()),
        _ => out.push(format!("::{name}")),
    }
    taken
}

/// How many arguments the call has whose parenthesis comes first.
fn arguments(tokens: &[Token<'_>]) -> usize {
    let (mut depth, mut count, mut any) = (0, 0, false);
    for (kind, text) in tokens {
        match *text {
            "(" => depth += 1,
            ")" => depth -= 1,
            "," if depth == 1 => count += 1,
            _ => any |= *kind != Kind::Blank,
        }
        if depth == 0 {
            break;
        }
    }
    if any { count + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_postgresql_become_the_engines() {
        for (from, to) in [
            ("SELECT * FROM pg_catalog.pg_class c", "SELECT * FROM pg_class c"),
            ("x OPERATOR(pg_catalog.~) '^(t)$' COLLATE pg_catalog.default", "x ~ '^(t)$' "),
            ("'t'::regclass", "regclass_of_1('t')"),
            ("x::pg_catalog.regtype::pg_catalog.text", "x::VARCHAR"),
            ("a::oid, b::\"char\", c::int4", "a::BIGINT, b::VARCHAR, c::int4"),
            ("SELECT current_user, a.current_user", "SELECT pg_current_user_0(), a.current_user"),
            ("SELECT '{0}' FROM pg_policy", "SELECT [0] FROM pg_policy"),
            ("SELECT '{0}', pg_x", "SELECT '{0}', pg_x"),
            ("pg_get_expr(a, f(b, c), true)", "pg_get_expr_3(a, f(b, c), true)"),
            ("E'\\'pg_catalog.x' || 'pg_catalog.y'", "E'\\'pg_catalog.x' || 'pg_catalog.y'"),
        ] {
            assert_eq!(rewrite(from), to);
        }
    }
}
