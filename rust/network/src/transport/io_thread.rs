//! The event loop of the I/O thread.
//!
//! One round: take the commands of other threads, give every connection with work a turn, drop
//! connections past their deadline, then poll; the poll sleeps only if there is no work left and no
//! command arrived meanwhile.

mod commands;
mod dialling;
mod strangers;

use std::collections::{HashMap, VecDeque};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use penstock_memory::SharedMemory;

use self::strangers::DropLog;
use super::backstop::Backstop;
use super::connection::{Connection, Phase, Side};
use super::listeners::{Listeners, SAME_HOST_LISTENER, TCP_LISTENER};
use super::news::News;
use super::socket::{Peer, Socket};
use super::tls::Tls;
use super::{Command, FIRST_CONNECTION, Transport};
use crate::environment::EnvironmentConfig;
use crate::error::Error;
use crate::framing::random_bytes;
use crate::partition::{Listener, PartitionManager};
use crate::sync::{Arc, Mutex, Weak};

/// Token of the waker.
pub(super) const WAKER: Token = Token(2);
/// Token of the set of sockets that readers receive from.
const BACKSTOP: Token = Token(3);
/// Events taken from one poll.
const MAX_EVENTS: usize = 256;
/// Time between two checks of the deadlines while there is always work.
const EXPIRY_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of open connections; further ones are refused.
const MAX_CONNECTIONS: usize = 4096;

/// Context of connections.
pub(super) struct Context {
    pub(super) transport: Arc<Transport>,
    pub(super) manager: Arc<PartitionManager>,
    pub(super) config: Arc<EnvironmentConfig>,
    /// Encryption of connections between hosts, if any.
    pub(super) tls: Option<Tls>,
    /// Memory of the pool's buffers, if consumers of this host may read it.
    pub(super) memory: Option<Arc<SharedMemory>>,
}

/// The state of the I/O thread.
pub(super) struct IoThread {
    poll: Poll,
    listeners: Listeners,
    context: Arc<Context>,
    connections: HashMap<usize, Arc<Mutex<Connection>>>,
    /// The connection to each executor that channels are read from.
    clients: HashMap<SocketAddr, usize>,
    /// Connections with a deadline: those that are not open yet.
    opening: Vec<usize>,
    drops: DropLog,
    /// Time of the next check of the deadlines, even under load.
    expire_again: Instant,
    backstop: Backstop,
    next_token: usize,
    /// Connections with a scheduled turn.
    scheduled: VecDeque<usize>,
    closing: bool,
}

impl IoThread {
    pub(super) fn new(
        poll: Poll,
        listeners: Listeners,
        transport: Arc<Transport>,
        manager: Arc<PartitionManager>,
        config: Arc<EnvironmentConfig>,
        tls: Option<Tls>,
        memory: Option<Arc<SharedMemory>>,
    ) -> std::io::Result<Self> {
        let backstop = Backstop::new(poll.registry(), BACKSTOP)?;
        Ok(Self {
            poll,
            listeners,
            context: Arc::new(Context {
                transport,
                manager,
                config,
                tls,
                memory,
            }),
            connections: HashMap::new(),
            clients: HashMap::new(),
            opening: Vec::new(),
            drops: DropLog::default(),
            expire_again: Instant::now(),
            backstop,
            next_token: FIRST_CONNECTION.0,
            scheduled: VecDeque::new(),
            closing: false,
        })
    }

    pub(super) fn run(mut self) {
        // A panic must not leave readers waiting for a thread that is gone.
        if catch_unwind(AssertUnwindSafe(|| self.serve())).is_err() {
            log::error!("the I/O thread panicked; every connection is closed");
        }
        self.close_all();
        self.context.transport.refuse_commands();
    }

    fn serve(&mut self) {
        let mut events = Events::with_capacity(MAX_EVENTS);
        let mut commands = Vec::new();
        while !self.closing {
            self.context.transport.take_commands(&mut commands);
            for command in commands.drain(..) {
                self.on_command(command);
            }
            for _ in 0..self.scheduled.len() {
                if let Some(token) = self.scheduled.pop_front() {
                    self.turn(token);
                }
            }
            // Last: a stranger that has sent its proof by now is not dropped for new ones.
            self.accept();
            if let Err(error) = self.poll_once(&mut events) {
                // Without a working poll nothing progresses: fail everything, visibly.
                log::error!("polling sockets failed: {error}");
                return;
            }
        }
    }

    fn poll_once(&mut self, events: &mut Events) -> std::io::Result<()> {
        let timeout = if self.closing || !self.scheduled.is_empty() || self.listeners.is_ready() {
            // Deadlines are kept under any load.
            let now = Instant::now();
            if now >= self.expire_again {
                self.expire(now);
            }
            Some(Duration::ZERO)
        } else {
            let waited = self
                .backstop
                .tick(Instant::now(), &self.connections, &mut self.scheduled);
            for channel in waited {
                self.on_command(Command::AnnounceCredit(channel));
            }
            let expiry = self.expire(Instant::now());
            let next = expiry.into_iter().chain(self.backstop.next_tick()).min();
            if self.scheduled.is_empty() && self.context.transport.park() {
                next.map(|next| next.saturating_duration_since(Instant::now()))
            } else {
                Some(Duration::ZERO)
            }
        };
        let polled = self.poll.poll(events, timeout);
        self.context.transport.unpark();
        match polled {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in events.iter() {
            match event.token() {
                WAKER => {}
                BACKSTOP => self
                    .backstop
                    .on_arrivals(&self.connections, &mut self.scheduled),
                token @ (TCP_LISTENER | SAME_HOST_LISTENER) => self.listeners.on_event(token),
                Token(token) => {
                    if let Some(connection) = self.connections.get(&token) {
                        let mut connection = connection.lock();
                        let closed = event.is_read_closed();
                        connection.lookout.on_polled(event.is_readable(), closed);
                        connection.writable |= event.is_writable() || event.is_write_closed();
                        schedule(&mut self.scheduled, &mut connection);
                    }
                }
            }
        }
        Ok(())
    }

    /// Lets a connection read and write for a while.
    fn turn(&mut self, token: usize) {
        let Some(shared) = self.connections.get(&token) else {
            return;
        };
        let mut connection = shared.lock();
        connection.scheduled = false;
        let mut turn = || {
            if matches!(connection.phase, Phase::Connecting) {
                if !connection.writable && !connection.lookout.is_readable() {
                    return Ok(());
                }
                connection.finish_connecting(self.context.config.handshake_timeout)?;
                if matches!(connection.phase, Phase::Connecting) {
                    return Ok(());
                }
            }
            connection.receive(&self.context)?;
            connection.transmit()?;
            self.backstop
                .after_turn(shared, &mut connection, self.poll.registry())
        };
        match turn() {
            Ok(()) => {
                if connection.has_work() {
                    schedule(&mut self.scheduled, &mut connection);
                }
            }
            Err(error) => {
                drop(connection);
                if !self.comes_again(token) {
                    self.drop_connection(token, &error);
                }
            }
        }
    }

    fn on_accepted(&mut self, socket: Socket, peer: Peer) {
        if self.connections.len() >= MAX_CONNECTIONS {
            let event = format!("dropped {peer}: {MAX_CONNECTIONS} connections are open");
            self.drops.note(event, Instant::now());
            return;
        }
        let deadline = Instant::now() + self.context.config.handshake_timeout;
        let prepared = self
            .prepare(socket)
            .map_err(|error| Error::io("preparing an accepted connection", &error))
            .and_then(|(token, socket)| Ok((token, socket, random_bytes()?)));
        let (token, socket, nonce) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                self.drops
                    .note(format!("dropped {peer}: {error}"), Instant::now());
                return;
            }
        };
        let transport = Arc::clone(&self.context.transport);
        let connection = Arc::new_cyclic(|connection| {
            let news = News::new(transport, token, Weak::clone(connection));
            Mutex::new(Connection::accepted(
                token,
                socket,
                peer,
                deadline,
                nonce,
                &self.context,
                news,
            ))
        });
        schedule(&mut self.scheduled, &mut connection.lock());
        self.connections.insert(token, connection);
        self.opening.push(token);
    }

    /// Prepares an accepted socket for use.
    fn prepare(&mut self, socket: Socket) -> std::io::Result<(usize, Socket)> {
        let mut socket = match (socket, &self.context.tls) {
            (Socket::Tcp(stream), Some(tls)) => Socket::Tls(Box::new(tls.accept(stream)?)),
            (socket, _) => socket,
        };
        socket.configure()?;
        let token = self.next_token;
        self.next_token += 1;
        self.register(&mut socket, token)?;
        Ok((token, socket))
    }

    /// Ends one connection; its dependents receive the error, everything else continues.
    fn drop_connection(&mut self, token: usize, error: &Error) {
        let Some(connection) = self.connections.remove(&token) else {
            return;
        };
        let mut connection = connection.lock();
        if connection.lookout.set_with_socket().is_some() {
            connection.leave_set();
        }
        if let Err(error) = self.poll.registry().deregister(&mut connection.socket) {
            log::debug!("deregistering a connection: {error}");
        }
        // Its buffers are returned before anybody is notified of the end.
        let (peer, opening, mut side) = connection.close();
        drop(connection);
        match &mut side {
            Side::Client(channels) => {
                self.clients.retain(|_, client| *client != token);
                if !channels.is_empty() {
                    log::warn!("connection to {peer} ended: {error}");
                }
                match error {
                    Error::CorruptStream(text) => channels.fail(&Error::CorruptStream(format!(
                        "{text} (on the connection with {peer})"
                    ))),
                    error => channels.fail(error),
                }
            }
            Side::Server(readers) => {
                // Closing this environment is not an error, whatever was in progress.
                let closing = matches!(error, Error::CancelTask(_));
                let quiet = readers.is_empty() && matches!(error, Error::PartitionConnection(_));
                if opening && !closing {
                    self.drops
                        .note(format!("dropped {peer}: {error}"), Instant::now());
                } else if !closing && !quiet {
                    log::warn!("dropping connection from {peer}: {error}");
                }
                readers.release();
            }
        }
    }

    /// Ends connections and listeners past their deadline; returns the next deadline.
    fn expire(&mut self, now: Instant) -> Option<Instant> {
        self.expire_again = now + EXPIRY_INTERVAL;
        let mut late = Vec::new();
        let mut next = None;
        self.opening.retain(|token| {
            let connection = self.connections.get(token);
            let deadline = connection.and_then(|connection| connection.lock().deadline);
            match deadline {
                Some(deadline) if deadline <= now => late.push(*token),
                Some(deadline) => next = next.into_iter().chain([deadline]).min(),
                None => return false,
            }
            true
        });
        for token in late {
            let late = self.connections[&token].lock();
            let error = match late.side {
                Side::Client(_) => Error::PartitionConnection(too_late(&late)),
                Side::Server(_) => {
                    Error::Authentication("the peer did not authenticate itself in time".into())
                }
            };
            drop(late);
            self.drop_connection(token, &error);
        }
        for listener in self.context.manager.expire(now) {
            match listener {
                Listener::Local(channel) => channel.not_found(),
                Listener::Remote {
                    connection,
                    request,
                } => {
                    self.with_readers(connection, |readers, outbound| {
                        readers.not_found(&request, outbound);
                    });
                }
            }
        }
        next.into_iter()
            .chain(self.dial_again(now))
            .chain(self.context.manager.next_deadline())
            .chain(self.drops.tell(now))
            .chain(self.listeners.resume(now))
            .min()
    }

    /// Writes as much as the sockets accept, then closes them.
    fn close_all(&mut self) {
        let tokens: Vec<usize> = self.connections.keys().copied().collect();
        for token in tokens {
            if let Some(connection) = self.connections.get(&token) {
                let mut connection = connection.lock();
                if matches!(connection.phase, Phase::Open)
                    && let Side::Client(_) = connection.side
                    && let Err(error) = connection.transmit()
                {
                    log::debug!("closing the connection to {}: {error}", connection.peer);
                }
            }
            self.drop_connection(
                token,
                &Error::CancelTask("the network environment was closed".into()),
            );
        }
    }
}

/// Returns the step that a producing executor has not completed in time; a slow one is not lost.
fn too_late(connection: &Connection) -> String {
    let peer = connection.peer;
    if connection.drops > 0 {
        format!(
            "Remote executor {peer} dropped the connection during the handshake, {} times, until \
             the timeout: too many unauthenticated clients connect to its data port, or it does \
             not accept this token.",
            connection.drops
        )
    } else if matches!(connection.phase, Phase::Connecting) {
        format!(
            "Connecting to remote executor {peer} took too long: its host does not answer. The \
             remote executor was probably lost, or something blocks the way to it."
        )
    } else {
        format!(
            "Remote executor {peer} accepted the connection, but did not complete the handshake \
             in time: it is slow or stopped. Run fewer workers on its machine, or raise \
             security.ssl.internal.handshake-timeout."
        )
    }
}

/// Adds a connection to those with a scheduled turn; false if it was there.
pub(super) fn schedule(scheduled: &mut VecDeque<usize>, connection: &mut Connection) -> bool {
    let new = !std::mem::replace(&mut connection.scheduled, true);
    if new {
        scheduled.push_back(connection.token);
    }
    new
}
