//! Settings that clients of PostgreSQL expect, and that mean nothing to the engine: [`Settings`].
//!
//! A client sets many of them before its first query. A value is accepted if the server behaves so
//! anyway, or if the setting changes no answer. Any other value is refused. Settings of the engine
//! (`timezone`, `statement_timeout` ...) are the engine's.

use std::collections::BTreeMap;

use swingdb::cutter::{Kind, Piece, first_words, pieces};

use crate::postgres::sqlstate::Refusal;

/// The values that a setting may get.
enum Values {
    /// Any: it changes no answer.
    Any,
    /// One of these, in lower case.
    Of(&'static [&'static str]),
    /// Names of schemas that all mean the one of tables.
    SearchPath,
    /// None: it can be looked at.
    Fixed,
}

/// Settings by name: the value at first, and which others there may be.
const KNOWN: [(&str, &str, Values); 30] = [
    ("application_name", "", Values::Any),
    ("bytea_output", "hex", Values::Of(&["hex"])),
    ("client_encoding", "UTF8", Values::Of(&["utf8", "utf-8", "unicode"])),
    ("client_min_messages", "notice", Values::Any),
    ("datestyle", "ISO, MDY", Values::Of(&["iso", "iso, mdy", "iso, ymd", "iso,mdy", "iso,ymd"])),
    ("default_transaction_isolation", "repeatable read", Values::Any),
    ("default_transaction_read_only", "on", Values::Of(&["on", "true", "1", "yes"])),
    ("extra_float_digits", "1", Values::Of(&["1", "2", "3"])),
    ("idle_in_transaction_session_timeout", "0", Values::Of(&["0"])),
    ("in_hot_standby", "off", Values::Fixed),
    ("integer_datetimes", "on", Values::Fixed),
    ("intervalstyle", "postgres", Values::Of(&["postgres"])),
    ("is_superuser", "off", Values::Fixed),
    ("jit", "off", Values::Any),
    ("lc_collate", "C", Values::Fixed),
    ("lc_ctype", "C", Values::Fixed),
    ("lock_timeout", "0", Values::Any),
    ("max_identifier_length", "63", Values::Fixed),
    ("row_security", "on", Values::Any),
    ("search_path", "main", Values::SearchPath),
    ("server_encoding", "UTF8", Values::Fixed),
    ("server_version", VERSION, Values::Fixed),
    ("server_version_num", "140000", Values::Fixed),
    ("session_authorization", "swingdb", Values::Fixed),
    ("ssl", "off", Values::Fixed),
    ("standard_conforming_strings", "on", Values::Of(&["on", "true", "1", "yes"])),
    ("synchronize_seqscans", "on", Values::Any),
    ("transaction_isolation", "repeatable read", Values::Any),
    ("transaction_read_only", "on", Values::Of(&["on", "true", "1", "yes"])),
    ("work_mem", "4MB", Values::Any),
];

/// The version of PostgreSQL whose protocol and formats these are.
const VERSION: &str = concat!("14.0 (SwingDB ", env!("CARGO_PKG_VERSION"), ")");

/// Settings whose values a client gets at the start, by the names that clients look for.
pub const REPORTED: [(&str, &str); 11] = [
    ("server_version", "server_version"),
    ("server_encoding", "server_encoding"),
    ("client_encoding", "client_encoding"),
    ("application_name", "application_name"),
    ("default_transaction_read_only", "default_transaction_read_only"),
    ("in_hot_standby", "in_hot_standby"),
    ("is_superuser", "is_superuser"),
    ("DateStyle", "datestyle"),
    ("IntervalStyle", "intervalstyle"),
    ("integer_datetimes", "integer_datetimes"),
    ("standard_conforming_strings", "standard_conforming_strings"),
];

/// How a statement about a setting is carried out.
#[derive(Debug, PartialEq, Eq)]
pub enum About {
    /// The statement is the engine's.
    Engine,
    /// It is done; its tag.
    Done(&'static str),
    /// The name and value that are shown.
    Shown(String, String),
}

/// The settings of one session.
#[derive(Default)]
pub struct Settings {
    changed: BTreeMap<&'static str, String>,
    /// Statements for the engine, from the parameters of the connection.
    pub for_engine: Vec<String>,
}

fn known(name: &str) -> Option<&'static (&'static str, &'static str, Values)> {
    KNOWN.iter().find(|known| known.0.eq_ignore_ascii_case(name))
}

impl Settings {
    /// The value of a setting.
    pub fn get(&self, name: &str) -> Option<&str> {
        let (name, first, _) = known(name)?;
        Some(self.changed.get(name).map_or(*first, String::as_str))
    }

    /// Changes a setting; `false`: there is none of the name here.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, Refusal> {
        let Some((name, _, values)) = known(name) else { return Ok(false) };
        let lower = value.to_lowercase();
        let fits = match values {
            Values::Any => true,
            Values::Of(these) => these.contains(&lower.as_str()),
            Values::SearchPath => lower.split(',').all(|schema| {
                let schema = schema.trim().trim_matches(['"', '\'']);
                matches!(schema, "main" | "public" | "$user" | "pg_catalog" | "")
            }),
            Values::Fixed => {
                return Err(Refusal::new("55P02", format!("{name:?} cannot be changed")));
            }
        };
        if !fits {
            let message = match values {
                Values::Of(these) => {
                    format!("{name:?} cannot be {value:?} here, only {:?}", these[0])
                }
                _ => format!(
                    "{name:?} cannot be {value:?}: tables are found in the schema main; write \
                     schema.table for others"
                ),
            };
            return Err(Refusal::new("0A000", message));
        }
        self.changed.insert(name, value.to_string());
        Ok(true)
    }

    /// Carries a statement out, if it is about a setting that is one of these.
    pub fn carry_out(&mut self, statement: &str) -> Result<About, Refusal> {
        let words = first_words(statement, 1);
        match words.first().map(String::as_str) {
            Some("set") => self.carry_out_set(statement),
            Some("show") => Ok(self.show(statement)),
            Some("reset") => Ok(self.reset(statement)),
            Some("discard") => Err(Refusal::new(
                "0A000",
                "DISCARD is not supported: begin a new session, which takes no time",
            )),
            _ => Ok(About::Engine),
        }
    }

    fn carry_out_set(&mut self, statement: &str) -> Result<About, Refusal> {
        let tokens = tokens(statement);
        let mut rest = &tokens[1..];
        let word =
            |rest: &[String], at: usize| rest.get(at).map_or("", |t| t.as_str()).to_lowercase();
        if word(rest, 0) == "transaction"
            || (word(rest, 0) == "session" && word(rest, 1) == "characteristics")
        {
            return transaction_modes(&tokens);
        }
        if matches!(word(rest, 0).as_str(), "session" | "local") {
            rest = &rest[1..];
        }
        if word(rest, 0) == "names" {
            let encoding = unquoted(rest.get(1).map_or("utf8", |t| t.as_str()));
            self.set("client_encoding", &encoding)?;
            return Ok(About::Done("SET"));
        }
        let (name, sign) = (word(rest, 0), word(rest, 1));
        if !matches!(sign.as_str(), "=" | "to") {
            return Ok(About::Engine);
        }
        let Some((_, first, _)) = known(unquoted(&name).as_str()) else {
            return Ok(About::Engine);
        };
        let values = rest[2..].iter().filter(|token| *token != ",").map(|token| unquoted(token));
        let value = values.collect::<Vec<_>>().join(", ");
        let value = if value.eq_ignore_ascii_case("default") { first } else { value.as_str() };
        self.set(&unquoted(&name), value)?;
        Ok(About::Done("SET"))
    }

    fn show(&self, statement: &str) -> About {
        let tokens = tokens(statement);
        let words = tokens[1..].iter().map(|token| token.to_lowercase()).collect::<Vec<_>>();
        let words = words.iter().map(String::as_str).collect::<Vec<_>>();
        let name = match words[..] {
            [name] => name,
            ["transaction", "isolation", "level"] => "transaction_isolation",
            _ => return About::Engine,
        };
        match self.get(name) {
            Some(value) => About::Shown(name.to_string(), value.to_string()),
            None => About::Engine,
        }
    }

    fn reset(&mut self, statement: &str) -> About {
        let tokens = tokens(statement);
        match known(tokens.get(1).map_or("", |token| token.as_str())) {
            Some((name, ..)) => {
                self.changed.remove(name);
                About::Done("RESET")
            }
            None => About::Engine,
        }
    }
}

/// SET TRANSACTION and SET SESSION CHARACTERISTICS: every isolation level is kept, since a
/// transaction sees one state, and READ ONLY is what sessions are.
fn transaction_modes(tokens: &[String]) -> Result<About, Refusal> {
    let words = tokens.iter().map(|token| token.to_lowercase()).collect::<Vec<_>>();
    if words.windows(2).any(|pair| pair == ["read", "write"]) {
        return Err(Refusal::new(
            "0A000",
            "transactions are READ ONLY: this server serves snapshots of the database",
        ));
    }
    Ok(About::Done("SET"))
}

/// The words, quoted texts and signs of a statement; `UTF-8` and `a.b` are one word each.
fn tokens(statement: &str) -> Vec<String> {
    let is_plain = |piece: &Piece<'_>| piece.kind == Kind::Word || matches!(piece.text, "." | "-");
    let (mut found, mut goes_on) = (Vec::<String>::new(), false);
    for piece in pieces(statement) {
        let is_blank = matches!(piece.kind, Kind::Blank | Kind::Comment);
        let is_plain = is_plain(&piece);
        match found.last_mut() {
            Some(word) if is_plain && goes_on => word.push_str(piece.text),
            _ if is_blank => {}
            _ => found.push(piece.text.to_string()),
        }
        goes_on = is_plain;
    }
    found
}

fn unquoted(token: &str) -> String {
    let quote = |quote: char| token.strip_prefix(quote)?.strip_suffix(quote);
    match (quote('\''), quote('"')) {
        (Some(text), _) => text.replace("''", "'"),
        (_, Some(name)) => name.replace("\"\"", "\""),
        _ => token.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_taken_only_where_it_is_what_happens_anyway() {
        let mut settings = Settings::default();
        let mut run = |sql: &str| settings.carry_out(sql).map_err(|refusal| refusal.code);
        assert_eq!(run("SET extra_float_digits = 3"), Ok(About::Done("SET")));
        assert_eq!(run("set session DateStyle to 'ISO'"), Ok(About::Done("SET")));
        assert_eq!(run("SET DateStyle = German"), Err("0A000"));
        assert_eq!(run("SET client_encoding TO 'LATIN1'"), Err("0A000"));
        assert_eq!(run("SET NAMES 'utf8'"), Ok(About::Done("SET")));
        assert_eq!(run("SET search_path TO \"$user\", public"), Ok(About::Done("SET")));
        assert_eq!(run("SET search_path TO geo"), Err("0A000"));
        assert_eq!(run("SET server_version = '9'"), Err("55P02"));
        assert_eq!(run("SET timezone = 'Europe/Oslo'"), Ok(About::Engine));
        assert_eq!(run("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE"), Err("0A000"));
        assert_eq!(run("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"), Ok(About::Done("SET")));
        let shown = About::Shown("extra_float_digits".into(), "3".into());
        assert_eq!(run("SHOW extra_float_digits"), Ok(shown));
        assert_eq!(run("RESET extra_float_digits"), Ok(About::Done("RESET")));
        assert_eq!(run("SELECT 1"), Ok(About::Engine));
    }
}
