//! Who may call: [`Door`]. Every call, the handshake included, has to show the token, if there is
//! one. A connection whose first such call does not come in time is closed
//! ([`listen`](crate::listen)).
//!
//! A client shows it as `authorization: Bearer TOKEN`, or as the password of `authorization: Basic
//! ...` with any name. The handshake turns the latter into the former.

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::{
    Action, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest,
    HandshakeResponse, PollInfo, SchemaResult, Ticket,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt;
use futures::stream::BoxStream;
use swingdb_server::token::Token;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Request, Response, Status, Streaming};

use crate::rows::Answer;
use crate::service::{Service, client_of};

/// The header with the token.
const AUTHORIZATION: &str = "authorization";

/// See the [module documentation](self).
pub struct Door {
    service: Service,
    token: Option<Token>,
}

impl Door {
    /// Before a service; with `None` everybody may call.
    pub fn new(service: Service, token: Option<Token>) -> Self {
        Self { service, token }
    }

    /// The secret that a call shows, if it is the right one.
    fn shown(&self, metadata: &MetadataMap) -> Result<Option<String>, Status> {
        let Some(token) = &self.token else { return Ok(None) };
        let header = metadata.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        match header.and_then(secret_of).filter(|secret| token.is(secret)) {
            Some(secret) => Ok(Some(secret)),
            None => Err(Status::unauthenticated(
                "this server needs its token, as `authorization: Bearer TOKEN` or as the password",
            )),
        }
    }

    /// Lets a connection stay; the secret that its call shows.
    fn admit<T>(&self, request: &Request<T>) -> Result<Option<String>, Status> {
        let secret = self.shown(request.metadata())?;
        if let Some(client) = client_of(request) {
            client.admit();
        }
        Ok(secret)
    }

    fn check<T>(&self, request: &Request<T>) -> Result<(), Status> {
        self.admit(request).map(drop)
    }
}

/// The secret of a header.
fn secret_of(header: &str) -> Option<String> {
    let (kind, rest) = header.split_once(' ')?;
    let rest = rest.trim();
    if kind.eq_ignore_ascii_case("bearer") {
        return Some(rest.to_string());
    }
    if !kind.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode(rest).ok()?).ok()?;
    text.split_once(':').map(|(_, password)| password.to_string())
}

#[tonic::async_trait]
impl FlightService for Door {
    type HandshakeStream = BoxStream<'static, Result<HandshakeResponse, Status>>;
    type ListFlightsStream = <Service as FlightService>::ListFlightsStream;
    type DoGetStream = Answer;
    type DoPutStream = <Service as FlightService>::DoPutStream;
    type DoActionStream = <Service as FlightService>::DoActionStream;
    type ListActionsStream = <Service as FlightService>::ListActionsStream;
    type DoExchangeStream = <Service as FlightService>::DoExchangeStream;

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        let secret = self.admit(&request)?.unwrap_or_default();
        let payload = secret.clone().into_bytes().into();
        let answer = HandshakeResponse { protocol_version: 0, payload };
        let mut response = Response::new(futures::stream::iter([Ok(answer)]).boxed());
        let header = MetadataValue::try_from(format!("Bearer {secret}"));
        let header = header.map_err(|_| Status::internal("a token that is no header"))?;
        response.metadata_mut().insert(AUTHORIZATION, header);
        Ok(response)
    }

    async fn list_flights(
        &self,
        request: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        self.check(&request)?;
        self.service.list_flights(request).await
    }

    async fn get_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.check(&request)?;
        self.service.get_flight_info(request).await
    }

    async fn poll_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        self.check(&request)?;
        self.service.poll_flight_info(request).await
    }

    async fn get_schema(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        self.check(&request)?;
        Ok(Response::new(SchemaResult { schema: self.service.schema_of(request).await? }))
    }

    async fn do_get(
        &self,
        request: Request<Ticket>,
    ) -> Result<Response<Self::DoGetStream>, Status> {
        self.check(&request)?;
        self.service.do_get(request).await
    }

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        self.check(&request)?;
        self.service.do_put(request).await
    }

    async fn do_action(
        &self,
        request: Request<Action>,
    ) -> Result<Response<Self::DoActionStream>, Status> {
        self.check(&request)?;
        self.service.do_action(request).await
    }

    async fn list_actions(
        &self,
        request: Request<Empty>,
    ) -> Result<Response<Self::ListActionsStream>, Status> {
        self.check(&request)?;
        self.service.list_actions(request).await
    }

    async fn do_exchange(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        self.check(&request)?;
        self.service.do_exchange(request).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_a_bearer_token_or_a_password() {
        assert_eq!(secret_of("Bearer abc").as_deref(), Some("abc"));
        let basic = format!("basic {}", STANDARD.encode("any name:a:b"));
        assert_eq!(secret_of(&basic).as_deref(), Some("a:b"));
        for wrong in ["", "abc", "Basic", "Basic !!", "Digest abc"] {
            assert_eq!(secret_of(wrong), None, "{wrong}");
        }
        let token = Token::new("0123456789abcdef");
        let door = Door::new(Service, token);
        let shows = |header: &str| {
            let mut metadata = MetadataMap::new();
            metadata.insert(AUTHORIZATION, header.parse().unwrap());
            door.shown(&metadata).is_ok()
        };
        assert!(shows("Bearer 0123456789abcdef") && !shows("Bearer 0123456789abcdeX"));
        assert!(door.shown(&MetadataMap::new()).is_err());
        assert!(Door::new(Service, None).shown(&MetadataMap::new()).is_ok());
    }
}
