//! The calls of the page, JSON in and out. `docs/ui.md` describes them.

use super::assets;
use super::guard::Guard;
use super::http::{Request, Response};
use super::overview;
use super::run::millis;
use super::state::{Refused, Session, State};
use super::tables;
use crate::failure::Failure;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The most time that a call may wait for a run to end.
const MAX_WAIT_MS: u64 = 2000;
/// Rows of a page, if a call does not say, and the most.
const PAGE_ROWS: u64 = 100;
const MAX_PAGE_ROWS: u64 = 1000;

/// The response to a request.
pub fn answer(state: &State, guard: &Guard, request: &Request) -> Response {
    let Some(call) = request.path.strip_prefix("/api/") else {
        return file(guard, request);
    };
    if let Err((status, reason)) = guard.admit_call(request) {
        return Response::error(status, reason);
    }
    match carry_out(state, request, call) {
        Ok((status, value)) => Response::json(status, value.to_string()),
        Err(Refused(status, reason)) => Response::error(status, &reason),
    }
}

fn file(guard: &Guard, request: &Request) -> Response {
    if let Err((status, reason)) = guard.admit(request) {
        return Response::error(status, reason);
    }
    if request.method != "GET" {
        return Response::error(405, "files are only read");
    }
    assets::file(&request.path).unwrap_or_else(|| Response::error(404, "there is no such page"))
}

fn carry_out(state: &State, request: &Request, call: &str) -> Result<(u16, Value), Refused> {
    let parts: Vec<&str> = call.split('/').collect();
    let value = match (request.method.as_str(), parts.as_slice()) {
        ("GET", ["overview"]) => {
            let mut value = overview::all(state.home())?;
            value["first"] = json!(state.first);
            value
        }
        ("GET", ["doctor"]) => overview::findings(state.home()),
        ("POST", ["sessions"]) => open(state, &body(request)?)?,
        ("GET", ["sessions", number]) => {
            let session = state.session(parsed(number)?)?;
            let mut value = about(&session);
            // An error: the database was dropped.
            let newer = session.database().wait_newer(Duration::ZERO);
            value["newer"] = json!(newer.as_ref().is_ok_and(|newer| *newer));
            value["gone"] = json!(session.name.is_some() && newer.is_err());
            value
        }
        ("DELETE", ["sessions", number]) => {
            state.close(parsed(number)?);
            json!({})
        }
        ("POST", ["sessions", number, "refresh"]) => {
            let session = state.session(parsed(number)?)?;
            let begun = Instant::now();
            state.refresh(&session)?;
            taken(about(&session), begun)
        }
        ("GET", ["sessions", number, "tables"]) => {
            let session = state.session(parsed(number)?)?;
            tables::all(&session.database().connect())?
        }
        ("POST", ["sessions", number, "runs"]) => {
            let session = state.session(parsed(number)?)?;
            return Ok((202, run(state, &session, &body(request)?)?));
        }
        ("GET", ["runs", number]) => {
            let run = state.find(parsed(number)?)?;
            let wait = request.number("wait").unwrap_or(0).min(MAX_WAIT_MS);
            run.wait(Duration::from_millis(wait));
            run.about()
        }
        ("GET", ["runs", number, "rows"]) => {
            let run = state.find(parsed(number)?)?;
            let limit = request.number("limit").unwrap_or(PAGE_ROWS).min(MAX_PAGE_ROWS);
            let of =
                |name| usize::try_from(request.number(name).unwrap_or(0)).unwrap_or(usize::MAX);
            let page = run.page(of("result"), of("offset"), limit as usize);
            page.ok_or_else(|| Refused(404, "there is no such result".to_string()))?
        }
        ("POST", ["runs", number, "cancel"]) => {
            let run = state.find(parsed(number)?)?;
            run.cancel();
            run.about()
        }
        ("DELETE", ["runs", number]) => {
            state.forget(parsed(number)?);
            json!({})
        }
        ("GET" | "POST" | "DELETE", _) => {
            return Err(Refused(404, "there is no such call".to_string()));
        }
        _ => return Err(Refused(405, "calls are GET, POST and DELETE".to_string())),
    };
    Ok((200, value))
}

fn open(state: &State, body: &Value) -> Result<Value, Refused> {
    let name = match &body["database"] {
        Value::Null => None,
        Value::String(name) => Some(name.clone()),
        _ => return Err(wrong("\"database\" is a text or null")),
    };
    let begun = Instant::now();
    let session = state.open(name, flag(body, "scratch")?)?;
    Ok(taken(about(&session), begun))
}

fn run(state: &State, session: &Session, body: &Value) -> Result<Value, Refused> {
    let Some(sql) = body["sql"].as_str() else {
        return Err(wrong("\"sql\" is a text"));
    };
    let number = state.run(session, sql.to_string(), flag(body, "explain")?)?;
    Ok(json!({"run": number}))
}

fn about(session: &Session) -> Value {
    let database = session.database();
    json!({
        "session": session.number,
        "database": session.name,
        "scratch": session.scratch,
        "epoch": database.epoch(),
    })
}

fn taken(mut value: Value, begun: Instant) -> Value {
    value["taken_ms"] = json!(millis(begun.elapsed()));
    value
}

fn body(request: &Request) -> Result<Value, Refused> {
    serde_json::from_slice(&request.body).map_err(|error| Failure::message(error).into())
}

fn flag(body: &Value, name: &str) -> Result<bool, Refused> {
    match &body[name] {
        Value::Null => Ok(false),
        Value::Bool(flag) => Ok(*flag),
        _ => Err(Refused(400, format!("{name:?} is true or false"))),
    }
}

fn parsed(number: &str) -> Result<u64, Refused> {
    number.parse().map_err(|_| wrong("a number is needed in the path"))
}

fn wrong(reason: &str) -> Refused {
    Refused(400, reason.to_string())
}
