//! Opening of a connection: both ends prove that they hold the token, and on one host the server
//! passes the memory of its buffers.

use std::io::ErrorKind;

use super::auth::{self, ANSWER_BYTES, NONCE_BYTES, PROOF_BYTES, Role};
use super::connection::{Connection, Phase, Side};
use super::io_thread::Context;
use super::lending::{Borrower, Lender};
use super::socket::Socket;
use crate::error::{Error, Result};
use crate::framing::random_bytes;
use crate::sync::Arc;
use crate::wire::Message;

impl Connection {
    /// Continues the handshake as far as the staged bytes allow.
    pub(super) fn shake_hands(&mut self, context: &Context) -> Result<()> {
        let token = &context.config.token;
        loop {
            let staged = self.inbound.staged();
            match &self.phase {
                Phase::Connecting | Phase::Open | Phase::Closed => return Ok(()),
                Phase::AwaitAnswer(nonce) => {
                    let Some(answer) = staged.first_chunk::<ANSWER_BYTES>() else {
                        return Ok(());
                    };
                    let (theirs, proof) = answer.split_at(NONCE_BYTES);
                    auth::verify(token, nonce, Role::Client, proof)?;
                    let mut nonce = [0; NONCE_BYTES];
                    nonce.copy_from_slice(theirs);
                    let proof = auth::prove(token, &nonce, Role::Server)?;
                    self.inbound.consume(ANSWER_BYTES);
                    self.show_memory(context, &proof);
                    self.open();
                }
                Phase::AwaitNonce => {
                    let Some(theirs) = staged.first_chunk::<NONCE_BYTES>() else {
                        return Ok(());
                    };
                    let proof = auth::prove(token, theirs, Role::Client)?;
                    let nonce: [u8; NONCE_BYTES] = random_bytes()?;
                    self.inbound.consume(NONCE_BYTES);
                    self.outbound.push_bytes(&nonce);
                    self.outbound.push_bytes(&proof);
                    self.phase = Phase::AwaitProof(nonce);
                }
                Phase::AwaitProof(nonce) => {
                    let Some(proof) = staged.first_chunk::<PROOF_BYTES>() else {
                        return Ok(());
                    };
                    auth::verify(token, nonce, Role::Server, proof)?;
                    self.inbound.consume(PROOF_BYTES);
                    self.map_memory()?;
                    self.open();
                }
            }
        }
    }

    /// Sends the server's proof, and on the same host the memory of its buffers with it.
    fn show_memory(&mut self, context: &Context, proof: &[u8]) {
        let mut sent = 0;
        if let (Socket::SameHost(stream), Some(memory)) = (&self.socket, &context.memory)
            // The descriptors belong to the proof, so nothing may be queued before it.
            && self.outbound.is_empty()
        {
            let shown = Lender::new(Arc::clone(memory)).and_then(|lender| {
                let sent = stream.send_with_descriptors(proof, &lender.descriptors())?;
                Ok((sent, lender))
            });
            match shown {
                Ok((count, lender)) => {
                    sent = count;
                    self.outbound.lender = Some(lender);
                }
                Err(error) => log::warn!(
                    "buffers go to {} by the socket, for memory cannot be shown to it: {error}",
                    self.peer
                ),
            }
        }
        if sent < proof.len() {
            self.outbound.push_bytes(&proof[sent..]);
        }
    }

    /// Maps the memory that the server passed, if any, and accepts it.
    fn map_memory(&mut self) -> Result<()> {
        let (Socket::SameHost(stream), Side::Client(channels)) = (&mut self.socket, &mut self.side)
        else {
            return Ok(());
        };
        let descriptors = stream.take_descriptors();
        if descriptors.is_empty() {
            return Ok(());
        }
        // Reading has stopped behind the descriptors.
        self.lookout.on_polled(true, false);
        match Borrower::map(&descriptors) {
            Ok(borrower) => {
                channels.borrow_by(borrower);
                self.outbound.push_message(&Message::UseSharedMemory);
            }
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                return Err(Error::CorruptStream(format!(
                    "what {} shows is not to be mapped: {error}",
                    self.peer
                )));
            }
            Err(error) => log::warn!(
                "buffers of {} come by the socket, for its memory cannot be mapped: {error}",
                self.peer
            ),
        }
        Ok(())
    }
}
