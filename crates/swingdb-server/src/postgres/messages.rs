//! The messages of a session and their answers, until the client leaves.

use pgwire::messages::PgWireFrontendMessage as Message;

use crate::postgres::conversation::Conversation;
use crate::postgres::failure::Failure;
use crate::postgres::sqlstate::Refusal;
use crate::postgres::wire::End;
use crate::registry::Registration;

impl Conversation {
    /// Answers messages until the client leaves.
    pub fn hold(&mut self, place: &Registration) -> Result<(), End> {
        if let Err(failure) = self.greet(place) {
            return match failure {
                Failure::Refused(refusal) => {
                    self.wire.send(&Refusal { is_fatal: true, ..refusal }.response())
                }
                Failure::Ended(end) => Err(end),
            };
        }
        loop {
            let message = match self.wire.receive() {
                Ok(Message::Terminate(_)) | Err(End::Gone) => return Ok(()),
                Err(End::Malformed(error)) => {
                    let refusal = Refusal::fatal("08P01", error.to_string());
                    self.wire.send(&refusal.response())?;
                    return Err(End::Malformed(error));
                }
                other => other?,
            };
            place.answering(|| self.answer(message))?;
        }
    }

    fn answer(&mut self, message: Message) -> Result<(), End> {
        match message {
            Message::Query(query) => {
                self.extended.begin_query();
                let outcome = self.query(&query.query);
                self.settle(outcome)?;
                self.ready()
            }
            Message::Sync(_) => {
                self.extended.sync(self.session.in_transaction());
                self.ready()
            }
            Message::Flush(_) => self.wire.flush(),
            message if message.is_extended_query() => {
                if self.extended.is_skipping() {
                    return Ok(());
                }
                let outcome = self.extended_message(message);
                let failed = matches!(outcome, Err(Failure::Refused(_)));
                self.settle(outcome)?;
                if failed {
                    self.extended.skip();
                }
                Ok(())
            }
            // A copy that failed to begin: what the client sends for it is ignored, as the
            // protocol says.
            Message::CopyData(_) | Message::CopyDone(_) | Message::CopyFail(_) => Ok(()),
            _ => {
                let refusal = Refusal::fatal("08P01", "this message does not belong here");
                self.wire.send(&refusal.response())?;
                Err(End::Gone)
            }
        }
    }
}
