//! Receiving on a connection: by the I/O thread, or by the thread that waits for data.

use std::io::ErrorKind;

use super::{Connection, Phase, Received, Side, TURN_BYTES};
use crate::error::Result;
use crate::transport::io_thread::Context;

/// Bytes that a waiting thread receives before it checks whether it still has to wait.
const WAITER_TURN_BYTES: usize = 256 << 10;
/// Frames that it handles before that check: the first of a thousand may end the wait.
/// In models, it is one frame.
const WAITER_TURN_FRAMES: usize = if cfg!(feature = "loom") { 1 } else { 32 };

impl Connection {
    /// Reads and handles arrived frames, at most those of one turn.
    ///
    /// # Errors
    /// The failure that ends the connection; `PartitionConnection` if the peer closed it.
    pub(in crate::transport) fn receive(&mut self, context: &Context) -> Result<()> {
        let received = self.read_turn(context);
        // Also after the end of the connection: a channel may have ended before.
        if let Side::Client(channels) = &mut self.side {
            channels.announce_gates();
            channels.announce_owed(&mut self.outbound);
            channels.return_references(&mut self.outbound);
        }
        received
    }

    fn read_turn(&mut self, context: &Context) -> Result<()> {
        let mut all = usize::MAX;
        if self.lookout.take_unhandled() {
            self.handle_frames(&mut all)?;
        }
        let mut turn = 0;
        while self.lookout.is_readable() && turn < TURN_BYTES {
            match self.read_once()? {
                None => self.lookout.on_emptied(),
                Some((count, filled)) => {
                    turn += count;
                    self.lookout.on_turn_read(filled);
                    if !matches!(self.phase, Phase::Open) {
                        self.shake_hands(context)?;
                    }
                    if matches!(self.phase, Phase::Open) {
                        turn += self.handle_frames(&mut all)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads once; returns the number of bytes and whether they filled the buffer, or `None` if the
    /// socket has no data now.
    fn read_once(&mut self) -> Result<Option<(usize, bool)>> {
        loop {
            match self.inbound.read(&mut self.socket) {
                Ok(Some((0, _))) => return Err(self.closed_by_peer()),
                Ok(read) => {
                    if read.is_some() {
                        self.lookout.on_read();
                    }
                    return Ok(read);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.lost(&error)),
            }
        }
    }

    /// Receives for at most one turn, on a waiting thread.  The reader of a gate also sends credits
    /// that the producer may need; the writer of a partition sends what its credits allow.
    pub(in crate::transport) fn receive_now(&mut self) -> Received {
        if !matches!(self.phase, Phase::Open) || self.failure.is_some() {
            return Received::Failed;
        }
        let received = self.read_waiter_turn();
        match &mut self.side {
            Side::Client(channels) => {
                channels.announce_gates();
                // The I/O thread returns them at a tick, unless credits are sent before.
                if !self.lookout.ticks() || !self.outbound.is_empty() || channels.owes_many() {
                    channels.return_references(&mut self.outbound);
                }
            }
            // The data is sent below, so the I/O thread need not look for it.
            Side::Server(readers) => {
                readers.take_moved();
                self.lookout.leave_to_writers();
            }
        }
        match received.and_then(|received| self.write_up_to(TURN_BYTES).map(|()| received)) {
            Ok(received) => received,
            Err(error) => {
                self.failure = Some(error);
                Received::Failed
            }
        }
    }

    /// Returns whether the reader that receives is to `send_owed` before it sleeps.
    pub(in crate::transport) fn owes(&self) -> bool {
        matches!(&self.side, Side::Client(channels) if channels.owes())
    }

    /// Sends delayed credits; returns false if the I/O thread must continue.
    pub(in crate::transport) fn send_owed(&mut self) -> bool {
        if let Side::Client(channels) = &mut self.side {
            channels.announce_owed(&mut self.outbound);
        }
        self.transmit_now()
    }

    fn read_waiter_turn(&mut self) -> Result<Received> {
        let (mut turn, mut left) = (0, WAITER_TURN_FRAMES);
        let mut emptied = false;
        loop {
            turn += self.handle_frames(&mut left)?;
            self.lookout.leave_unhandled(left == 0);
            if left > 0 && emptied {
                return Ok(Received::All);
            }
            if left == 0 || turn >= WAITER_TURN_BYTES {
                return Ok(Received::Some);
            }
            let Some((count, filled)) = self.read_once()? else {
                return Ok(Received::All);
            };
            turn += count;
            emptied = !filled;
        }
    }

    /// Handles the bytes read so far.  Handles at most `left` frames of a producer and reduces
    /// `left` by their number.  Returns the number of bytes copied without the socket.
    fn handle_frames(&mut self, left: &mut usize) -> Result<usize> {
        match &mut self.side {
            Side::Client(channels) => {
                let (inbound, outbound) = (&mut self.inbound, &mut self.outbound);
                channels.handle_frames(inbound, outbound, self.peer, left)
            }
            Side::Server(readers) => {
                readers.handle_frames(&mut self.inbound, &mut self.outbound)?;
                Ok(0)
            }
        }
    }

    /// Reads arrived credits before the next record needs them, while the I/O thread does not watch
    /// the socket.
    pub(super) fn take_credits_ahead(&mut self) -> Result<()> {
        if let Side::Server(readers) = &mut self.side
            && readers.take_spent()
            && self.lookout.ticks()
            && !self.lookout.has_unhandled()
        {
            self.take_credits()?;
        }
        Ok(())
    }

    /// Reads arrived credits; returns whether there were any.
    pub(super) fn take_credits(&mut self) -> Result<bool> {
        let Some(_) = self.read_once()? else {
            return Ok(false);
        };
        if let Side::Server(readers) = &mut self.side {
            let others = readers.take_credits(&mut self.inbound, &mut self.outbound)?;
            self.lookout.leave_unhandled(others);
            // Perhaps they were another's.
            readers.ask_who_waits();
        }
        Ok(true)
    }
}
