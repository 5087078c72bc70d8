//! One connection: its socket, the handshake that opens it, and its two sides.

mod receive;

use std::io::{ErrorKind, Write};
use std::time::{Duration, Instant};

use super::auth::NONCE_BYTES;
use super::client::ClientChannels;
use super::inbound::{Inbound, STAGING_BYTES};
use super::io_thread::Context;
use super::lookout::{Event, Lookout, Step};
use super::news::News;
use super::outbound::Outbound;
use super::server::ServerReaders;
use super::socket::{Peer, Socket};
use super::waiting::Waiting;
use crate::error::{Error, Result};
use crate::gate::RemoteInputChannel;
use crate::sync::{Arc, Mutex};
use crate::wire::Message;

/// Bytes read or written in one turn, before other connections have theirs.
pub(super) const TURN_BYTES: usize = 4 << 20;

/// Phase in a connection's life.
pub(super) enum Phase {
    /// The socket is not connected yet.
    Connecting,
    /// Server: has sent this nonce, waits for the client's answer.
    AwaitAnswer([u8; NONCE_BYTES]),
    /// Client: waits for the server's nonce.
    AwaitNonce,
    /// Client: has sent this nonce, waits for the server's proof.
    AwaitProof([u8; NONCE_BYTES]),
    /// Frames are exchanged.
    Open,
    /// Ended; only threads that wanted to send still refer to it.
    Closed,
}

/// The side of the protocol that this executor has.
pub(super) enum Side {
    /// Consumers at the other end.
    Server(ServerReaders),
    /// Producers at the other end.
    Client(ClientChannels),
}

/// Result of receiving on a waiting thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Received {
    /// All data was received.
    All,
    /// A turn's worth was received; there is more.
    Some,
    /// Nothing was received: the connection has ended or the I/O thread is to end it.
    Failed,
}

/// A connection of the I/O thread.
pub(super) struct Connection {
    pub(super) token: usize,
    pub(super) socket: Socket,
    pub(super) peer: Peer,
    pub(super) phase: Phase,
    pub(super) side: Side,
    pub(super) inbound: Inbound,
    pub(super) outbound: Outbound,
    /// Frames queued before the connection is open.
    early: Outbound,
    /// The socket may take bytes.
    pub(super) writable: bool,
    /// Decides which thread reads arriving data.
    pub(super) lookout: Lookout,
    /// True if the connection is in the I/O thread's list of work.
    pub(super) scheduled: bool,
    /// Deadline of connecting, or of the handshake.
    pub(super) deadline: Option<Instant>,
    /// Deadline of the handshake, over all attempts.
    handshake_deadline: Option<Instant>,
    /// True if the peer has ended the connection before it was open.
    pub(super) dropped_unopened: bool,
    /// Number of times that the peer has done so.
    pub(super) drops: u32,
    /// Time of the next attempt after it.
    pub(super) pause: Option<Instant>,
    /// Error on another thread that was sending; the I/O thread ends the connection.
    failure: Option<Error>,
}

impl Connection {
    /// An accepted connection: the server speaks first.
    pub(super) fn accepted(
        token: usize,
        socket: Socket,
        peer: Peer,
        deadline: Instant,
        nonce: [u8; NONCE_BYTES],
        context: &Arc<Context>,
        news: News,
    ) -> Self {
        let side = Side::Server(ServerReaders::new(token, Arc::clone(context), news));
        let mut connection = Self::new(
            token,
            socket,
            peer,
            Phase::AwaitAnswer(nonce),
            side,
            deadline,
        );
        connection.outbound.push_bytes(&nonce);
        connection.writable = true;
        connection
    }

    /// Creates a connection whose socket is connecting.
    pub(super) fn connecting(token: usize, socket: Socket, peer: Peer, deadline: Instant) -> Self {
        let side = Side::Client(ClientChannels::default());
        Self::new(token, socket, peer, Phase::Connecting, side, deadline)
    }

    fn new(
        token: usize,
        socket: Socket,
        peer: Peer,
        phase: Phase,
        side: Side,
        deadline: Instant,
    ) -> Self {
        Self {
            token,
            socket,
            peer,
            phase,
            side,
            inbound: Inbound::new(),
            outbound: Outbound::default(),
            early: Outbound::default(),
            writable: false,
            lookout: Lookout::new(),
            scheduled: false,
            deadline: Some(deadline),
            handshake_deadline: None,
            dropped_unopened: false,
            drops: 0,
            pause: None,
            failure: None,
        }
    }

    /// Queues a message, to be sent once the connection is open.
    pub(super) fn send(&mut self, message: &Message) {
        if matches!(self.phase, Phase::Open) {
            self.outbound.push_message(message);
        } else {
            self.early.push_message(message);
        }
    }

    /// Completes connecting when the socket became writable: it is connected or has failed.
    pub(super) fn finish_connecting(&mut self, handshake_timeout: Duration) -> Result<()> {
        match self.check_connected() {
            Ok(false) => {}
            Ok(true) => {
                self.phase = Phase::AwaitNonce;
                let deadline = Instant::now() + handshake_timeout;
                self.deadline = Some(*self.handshake_deadline.get_or_insert(deadline));
            }
            Err(error) => {
                // An absent executor refuses; a reset comes from a present one.
                self.dropped_unopened = error.kind() == ErrorKind::ConnectionReset;
                return Err(Error::PartitionConnection(format!(
                    "Connecting to remote executor {} failed: {error}. The remote executor was \
                     probably lost.",
                    self.peer
                )));
            }
        }
        Ok(())
    }

    /// Returns whether connecting has ended; the socket is then ready for use.
    fn check_connected(&self) -> std::io::Result<bool> {
        if let Some(error) = self.socket.take_error()? {
            return Err(error);
        }
        let connected = self.socket.check_connected()?;
        if connected {
            self.socket.configure()?;
        }
        Ok(connected)
    }

    /// Pauses a connection that the peer dropped before it was open, until it is dialled again.
    /// Queued frames and waiting channels remain.
    pub(super) fn pause_until(&mut self, pause: Instant) {
        self.phase = Phase::Connecting;
        self.pause = Some(pause);
        self.drops += 1;
        self.dropped_unopened = false;
        self.inbound = Inbound::new();
        self.outbound = Outbound::default();
        self.writable = false;
        self.lookout.on_new_socket();
    }

    /// Continues with another socket, which is connecting.
    pub(super) fn dialled(&mut self, socket: Socket) {
        self.socket = socket;
        self.pause = None;
        self.writable = false;
        self.lookout.on_new_socket();
    }

    pub(super) fn open(&mut self) {
        self.phase = Phase::Open;
        self.deadline = None;
        self.inbound.open();
        self.outbound.append(&mut self.early);
    }

    /// Writes queued data, fetching more from the readers while the socket accepts it.
    ///
    /// # Errors
    /// The error that ends the connection.
    pub(super) fn transmit(&mut self) -> Result<()> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        if let Side::Server(readers) = &mut self.side {
            readers.take_news(&mut self.outbound);
        }
        self.write_up_to(TURN_BYTES)
    }

    /// Returns whether it is open and nothing is queued.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Open) && self.writable && self.outbound.is_empty()
    }

    /// Queues a channel's gathered credits, if the channel still belongs to the connection.
    pub(super) fn send_credits(&mut self, channel: &RemoteInputChannel) {
        if let Side::Client(channels) = &mut self.side
            && channels.contains(&channel.id)
        {
            let credit = channel.take_credits();
            if credit > 0 {
                channels.return_references(&mut self.outbound);
                let receiver = channel.id;
                self.send(&Message::AddCredit { credit, receiver });
            }
        }
    }

    /// Sends what a thread has queued, in one write outside of the I/O thread; returns false if the
    /// I/O thread must continue.
    pub(super) fn transmit_now(&mut self) -> bool {
        match self.phase {
            Phase::Open => {}
            Phase::Closed => return true,
            _ => return false,
        }
        if !self.writable {
            // The poll will report room in the socket, and that turn sends the rest.
            return true;
        }
        if let Side::Server(readers) = &mut self.side {
            readers.take_news(&mut self.outbound);
        }
        match self.write_up_to(1).and_then(|()| self.take_credits_ahead()) {
            Ok(()) => !self.has_unsent() && !self.lookout.has_unhandled(),
            Err(error) => {
                self.failure = Some(error);
                false
            }
        }
    }

    /// Writes until this many bytes are written, or until the socket or the readers have no more.
    fn write_up_to(&mut self, bytes: usize) -> Result<()> {
        let mut turn = 0;
        loop {
            if matches!(self.phase, Phase::Open) {
                self.fill()?;
            }
            if !self.writable {
                return Ok(());
            }
            if self.outbound.is_empty() {
                return self.flush();
            }
            if turn >= bytes {
                return Ok(());
            }
            let before = self.outbound.bytes();
            match self.outbound.write(&mut self.socket) {
                Ok(took_all) => {
                    turn += before - self.outbound.bytes();
                    self.writable = took_all;
                }
                Err(error) => return Err(self.lost(&error)),
            }
        }
    }

    /// Fetches the readers' data; if one of them waits for credit, or for its buffers, and the I/O
    /// thread does not watch, looks for it.
    fn fill(&mut self) -> Result<()> {
        while let Side::Server(readers) = &mut self.side {
            readers.fill(&mut self.outbound)?;
            let waiting = readers.take_waiting() || self.outbound.misses_buffers();
            if !waiting || !self.lookout.ticks() {
                break;
            }
            if self.lookout.has_unhandled() || !self.take_credits()? {
                if self.lookout.on(Event::OutOfCredit) == Step::EnterSet {
                    self.enter_set()?;
                }
                break;
            }
        }
        Ok(())
    }

    /// Notifies the I/O thread of arrivals by its set, including present ones.
    pub(super) fn enter_set(&self) -> Result<()> {
        match self.lookout.set() {
            Some(set) => set
                .add(&self.socket, self.token)
                .map_err(|error| Error::io("looking out for arrivals", &error)),
            None => Ok(()),
        }
    }

    /// Stops notifying it.
    pub(super) fn leave_set(&self) {
        if let Some(set) = self.lookout.set()
            && let Err(error) = set.remove(&self.socket)
        {
            log::error!("taking a socket out of its set: {error}");
        }
    }

    /// Puts a waiting thread in line for arrivals, before the I/O thread.
    pub(super) fn attend(&self, shared: &Arc<Mutex<Self>>, waiting: &Waiting) -> Result<()> {
        // Too early until the poll has left the arrivals to sets.
        if self.lookout.polls() || waiting.attends(self.token) {
            return Ok(());
        }
        let attended = || {
            waiting.attend(shared, self)?;
            match self.lookout.set_with_socket() {
                Some(set) => {
                    set.remove(&self.socket)?;
                    set.add(&self.socket, self.token)
                }
                None => Ok(()),
            }
        };
        attended().map_err(|error| Error::io("adding a thread to a connection", &error))
    }

    /// Puts the writers of partitions with readers in line.
    pub(super) fn attend_writers(&mut self, shared: &Arc<Mutex<Self>>) -> Result<()> {
        if self.lookout.polls() {
            return Ok(());
        }
        let Side::Server(readers) = &mut self.side else {
            return Ok(());
        };
        for waiting in readers.take_attached()? {
            self.attend(shared, &waiting)?;
        }
        Ok(())
    }

    /// Flushes the socket's own buffer.
    fn flush(&mut self) -> Result<()> {
        match self.socket.flush() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.writable = false,
            flushed => flushed.map_err(|error| self.lost(&error))?,
        }
        Ok(())
    }

    /// Returns whether another turn would have something to do.
    pub(super) fn has_work(&self) -> bool {
        if matches!(self.phase, Phase::Connecting) {
            return false;
        }
        self.lookout.is_readable() || self.has_unsent()
    }

    /// Returns whether the socket would accept data that is ready to be sent.
    pub(super) fn has_unsent(&self) -> bool {
        let available = match &self.side {
            Side::Server(readers) => readers.has_available(),
            Side::Client(_) => false,
        };
        self.writable && (available || !self.outbound.is_empty() || self.socket.wants_flush())
    }

    /// Ends the connection and drops its queues; returns the peer, whether the connection was still
    /// being opened, and its side.
    pub(super) fn close(&mut self) -> (Peer, bool, Side) {
        let opening = !matches!(self.phase, Phase::Open);
        self.phase = Phase::Closed;
        self.inbound = Inbound::new();
        self.outbound = Outbound::default();
        self.early = Outbound::default();
        let gone = Side::Client(ClientChannels::default());
        (self.peer, opening, std::mem::replace(&mut self.side, gone))
    }

    fn closed_by_peer(&mut self) -> Error {
        self.dropped_unopened = self.shakes_hands();
        Error::PartitionConnection(format!(
            "Connection unexpectedly closed by remote executor {}. This might indicate that the \
             remote executor was lost.",
            self.peer
        ))
    }

    /// Returns whether this end has connected, and is not yet accepted.
    fn shakes_hands(&self) -> bool {
        matches!(self.phase, Phase::AwaitNonce | Phase::AwaitProof(_))
    }

    fn lost(&mut self, error: &std::io::Error) -> Error {
        // Invalid TLS will not become valid on the next attempt.
        self.dropped_unopened = self.shakes_hands() && error.kind() != ErrorKind::InvalidData;
        Error::PartitionConnection(match error.kind() {
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => format!(
                "Lost connection to executor {}: {error}. This might indicate that the remote \
                 executor was lost.",
                self.peer
            ),
            // The data is not valid TLS, or the certificate is another job's.
            ErrorKind::InvalidData => format!("TLS with {} failed: {error}", self.peer),
            _ => format!(
                "Local transport error on the connection to {}: {error}",
                self.peer
            ),
        })
    }
}

/// Returns whether a control frame must be gathered outside of the staging area.
pub(super) fn exceeds_staging(frame_bytes: usize) -> bool {
    frame_bytes > STAGING_BYTES
}
