//! The first messages of a connection: TLS, the token, parameters, requests to cancel.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pgwire::messages::response::{GssEncResponse, SslResponse};
use pgwire::messages::startup::{Authentication, NegotiateProtocolVersion, Startup};
use pgwire::messages::{
    PgWireFrontendMessage as Message, SslNegotiationMetaMessage as Negotiation,
};
use socket2::{SockRef, TcpKeepalive};

use crate::postgres::conversation::Conversation;
use crate::postgres::failure::Failure;
use crate::postgres::settings::Settings;
use crate::postgres::sqlstate::Refusal;
use crate::postgres::wire::{End, Wire};
use crate::registry::{Full, Registration};
use crate::shared::Shared;
use crate::transport::Transport;

/// How long a client has for all of its first messages.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a connection is silent before the other machine is asked whether it is there.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Serves one connection until its end.
pub fn serve(shared: &Arc<Shared>, stream: TcpStream) {
    // Small answers wait for nothing. A machine that is gone is noticed after some minutes. Where
    // the system refuses either, the session works all the same.
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
    let Ok(socket) = stream.try_clone() else { return };
    let Ok(secret) = secret() else { return };
    let wire = Wire::new(Transport::Plain(stream));
    // A request to cancel needs no place among the sessions: it is there when there is none left.
    let (place, full) = match shared.registry.enter(socket, secret) {
        Ok(place) => (Some(place), None),
        Err(full) => (None, Some(full)),
    };
    let mut negotiated = match negotiate(shared, wire) {
        Ok(Some(negotiated)) => negotiated,
        Ok(None) | Err(_) => return,
    };
    let outcome = match (place, full) {
        (Some(place), _) => session(shared, negotiated, place),
        (None, full) => {
            let refusal = match full {
                Some(Full::TooMany) => {
                    let message = "too many sessions: the server's option --max-sessions allows";
                    Refusal::fatal("53300", format!("{message} {}", shared.source.limits.sessions))
                }
                _ => Refusal::fatal("57P03", "the server ends"),
            };
            // The client may be gone.
            let _ = negotiated.wire.send(&refusal.response());
            negotiated.wire.close();
            Ok(())
        }
    };
    if let Err(End::Malformed(error)) = outcome {
        eprintln!("swingdb-server: a connection was ended: {error}");
    }
}

/// A connection whose client has sent its parameters.
struct Negotiated {
    wire: Wire,
    startup: Startup,
}

/// A random number, so that no other client can interrupt the session.
fn secret() -> std::io::Result<i32> {
    let mut bytes = [0; 4];
    let random = rustls::crypto::ring::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| std::io::Error::other("no random numbers"))?;
    Ok(i32::from_ne_bytes(bytes))
}

/// Answers requests for TLS, and to cancel, until the client sends its parameters.
fn negotiate(shared: &Shared, mut wire: Wire) -> Result<Option<Negotiated>, End> {
    let deadline = Some(Instant::now() + PATIENCE);
    wire.transport().set_write_patience(Some(PATIENCE))?;
    loop {
        wire.deadline = deadline;
        match wire.receive()? {
            Message::SslNegotiation(Negotiation::PostgresSsl(_)) => match &shared.tls {
                Some(config) if !wire.transport().is_tls() => {
                    wire.send(&SslResponse::Accept)?;
                    wire.flush()?;
                    wire = Wire::new(wire.into_transport()?.into_tls(config)?);
                }
                _ => wire.send(&SslResponse::Refuse)?,
            },
            Message::SslNegotiation(Negotiation::PostgresGss(_)) => {
                wire.send(&GssEncResponse::Refuse)?;
            }
            Message::SslNegotiation(Negotiation::None) => {
                wire.context.awaiting_frontend_ssl = false;
            }
            Message::CancelRequest(request) => {
                let secret = request.secret_key.to_bytes();
                if let Ok(secret) = <[u8; 4]>::try_from(&secret[..]) {
                    shared.registry.interrupt(request.pid, i32::from_be_bytes(secret));
                }
                wire.close();
                return Ok(None);
            }
            Message::Startup(startup) => {
                wire.context.awaiting_frontend_startup = false;
                return Ok(Some(Negotiated { wire, startup }));
            }
            _ => return Err(End::Gone),
        }
    }
}

/// Lets a client in and serves it.
fn session(shared: &Shared, negotiated: Negotiated, place: Registration) -> Result<(), End> {
    let Negotiated { mut wire, startup } = negotiated;
    match prepare(shared, &mut wire, &startup) {
        Ok(settings) => {
            wire.wait_without_end()?;
            wire.transport().set_write_patience(shared.source.limits.statement_timeout)?;
            let started = shared.source.session();
            match started.map_err(|error| Refusal { is_fatal: true, ..Refusal::from(error) }) {
                Ok(session) => {
                    place.set_statements(session.interrupt_handle());
                    let mut conversation = Conversation::new(wire, session, settings);
                    let outcome = conversation.hold(&place);
                    conversation.close();
                    outcome
                }
                Err(refusal) => {
                    wire.send(&refusal.response())?;
                    wire.close();
                    Ok(())
                }
            }
        }
        Err(Failure::Refused(refusal)) => {
            wire.send(&Refusal { is_fatal: true, ..refusal }.response())?;
            wire.close();
            Ok(())
        }
        Err(Failure::Ended(end)) => Err(end),
    }
}

/// Asks for the token and takes the parameters.
fn prepare(shared: &Shared, wire: &mut Wire, startup: &Startup) -> Result<Settings, Failure> {
    if startup.protocol_number_major != 3 {
        return Err(Refusal::protocol("only version 3 of the protocol is spoken").into());
    }
    if shared.tls.is_some() && !wire.transport().is_tls() {
        let message = "this server speaks TLS only: connect with sslmode=require or stricter";
        return Err(Refusal::new("28000", message).into());
    }
    if let Some(token) = &shared.token {
        wire.send(&Authentication::CleartextPassword)?;
        let shown = match wire.receive()? {
            Message::PasswordMessageFamily(message) => {
                message.into_password().map_err(End::Malformed)?.password
            }
            _ => return Err(End::Gone.into()),
        };
        if !token.is(&shown) {
            return Err(Refusal::new("28P01", "the password is not the server's token").into());
        }
    }
    let options = startup.parameters.keys().filter(|name| name.starts_with("_pq_."));
    let options = options.cloned().collect::<Vec<_>>();
    if startup.protocol_number_minor > 0 || !options.is_empty() {
        wire.send(&NegotiateProtocolVersion::new(0, options))?;
    }
    let database = startup.parameters.get("database").or(startup.parameters.get("user"));
    if let Some(database) = database.filter(|name| **name != shared.source.name) {
        let serves = &shared.source.name;
        let message = format!("database {database:?} is not served here, only {serves:?} is");
        return Err(Refusal::new("3D000", message).into());
    }
    settings_of(startup)
}

fn settings_of(startup: &Startup) -> Result<Settings, Failure> {
    let mut settings = Settings::default();
    for (name, value) in &startup.parameters {
        match name.as_str() {
            "user" | "database" => {}
            "replication" if value == "false" || value == "off" || value == "0" => {}
            "options" if value.trim().is_empty() => {}
            name if name.starts_with("_pq_.") => {}
            "TimeZone" | "timezone" | "statement_timeout" => {
                let value = value.replace('\'', "''");
                settings.for_engine.push(format!("SET {name} = '{value}'"));
            }
            name => {
                if !settings.set(name, value)? {
                    let message = format!(
                        "parameter {name:?} of the connection is not supported: use SET when \
                         connected"
                    );
                    return Err(Refusal::new("0A000", message).into());
                }
            }
        }
    }
    Ok(settings)
}
