//! Messages in and out of a transport: [`Wire`].
//!
//! Answers are gathered and sent when there are many, and before the next message is waited for.

use std::io::{ErrorKind, Read, Write};
use std::time::Instant;

use bytes::BytesMut;
use pgwire::error::PgWireError;
use pgwire::messages::{DecodeContext, Message, PgWireFrontendMessage};

use crate::transport::Transport;

/// Answers of this size are sent on.
const SEND_BYTES: usize = 64 << 10;
/// How much is read at once.
const READ_BYTES: usize = 16 << 10;

/// Why a conversation ends.
#[derive(Debug, thiserror::Error)]
pub enum End {
    /// The client said goodbye, or is gone.
    #[error("the client is gone")]
    Gone,
    /// The connection failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The client does not speak the protocol.
    #[error("what the client sent is no message of the protocol: {0}")]
    Malformed(#[from] PgWireError),
}

/// See the [module documentation](self).
pub struct Wire {
    transport: Transport,
    input: BytesMut,
    output: BytesMut,
    /// The kind of message that comes next.
    pub context: DecodeContext,
    /// Until when messages are waited for; `None`: without end.
    pub deadline: Option<Instant>,
}

impl Wire {
    /// A conversation that begins.
    pub fn new(transport: Transport) -> Self {
        Self {
            transport,
            input: BytesMut::new(),
            output: BytesMut::new(),
            context: DecodeContext::default(),
            deadline: None,
        }
    }

    /// The bytes below.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// The transport, before anything else was received. No bytes may have come behind the
    /// request for TLS: they would have been sent in the clear.
    pub fn into_transport(self) -> Result<Transport, End> {
        match self.input.is_empty() {
            true => Ok(self.transport),
            false => Err(End::Gone),
        }
    }

    /// The next message. All answers are sent before it is waited for.
    pub fn receive(&mut self) -> Result<PgWireFrontendMessage, End> {
        loop {
            if let Some(message) = PgWireFrontendMessage::decode(&mut self.input, &self.context)? {
                return Ok(message);
            }
            self.flush()?;
            if let Some(deadline) = self.deadline {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(End::Gone);
                }
                self.transport.set_read_patience(Some(left))?;
            }
            let mut bytes = [0; READ_BYTES];
            match self.transport.read(&mut bytes) {
                Ok(0) => return Err(End::Gone),
                Ok(count) => self.input.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for messages without end from now on.
    pub fn wait_without_end(&mut self) -> Result<(), End> {
        self.deadline = None;
        Ok(self.transport.set_read_patience(None)?)
    }

    /// Adds an answer.
    pub fn send(&mut self, message: &impl Message) -> Result<(), End> {
        message.encode(&mut self.output)?;
        self.send_much()
    }

    /// Where answers are written, for those of many rows.
    pub fn output(&mut self) -> &mut BytesMut {
        &mut self.output
    }

    /// Sends answers on when there are many.
    pub fn send_much(&mut self) -> Result<(), End> {
        if self.output.len() >= SEND_BYTES { self.flush() } else { Ok(()) }
    }

    /// Sends all answers.
    pub fn flush(&mut self) -> Result<(), End> {
        if !self.output.is_empty() {
            self.transport.write_all(&self.output)?;
            self.transport.flush()?;
            self.output.clear();
        }
        Ok(())
    }

    /// Sends what there is and closes.
    pub fn close(mut self) {
        // The client may be gone.
        let _ = self.flush();
        self.transport.close();
    }
}
