//! Connecting to other executors: at once, and again if the other end drops a connection before it
//! is open.
//!
//! An overloaded port drops connections that have proved nothing, which may include ours.  A holder
//! of the token dials again, within the one deadline of its handshake; an absent executor refuses
//! the connection, which is an answer.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Interest, Token};

use super::IoThread;
use crate::error::{Error, Result};
use crate::sync::{Arc, Mutex};
use crate::transport::connection::{Connection, Side};
use crate::transport::same_host;
use crate::transport::same_host_stream::SameHostStream;
use crate::transport::socket::{Peer, Socket};

/// First delay after a dropped connection; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// Number of doublings.
const DOUBLINGS: u32 = 5;

impl IoThread {
    /// Starts connecting to an executor; returns the connection's token.
    pub(super) fn connect(&mut self, address: SocketAddr) -> Result<usize> {
        let token = self.next_token;
        self.next_token += 1;
        let socket = self.dial(address, token)?;
        let deadline = Instant::now() + self.context.config.connect_timeout;
        let connection = Connection::connecting(token, socket, Peer::Address(address), deadline);
        self.connections
            .insert(token, Arc::new(Mutex::new(connection)));
        self.opening.push(token);
        self.clients.insert(address, token);
        Ok(token)
    }

    /// Returns a connecting socket, registered with the poll as `token`.
    fn dial(&self, address: SocketAddr, token: usize) -> Result<Socket> {
        let failed = |error: std::io::Error| {
            Error::PartitionConnection(format!(
                "Connecting to remote executor {address} failed: {error}. The remote executor was \
                 probably lost."
            ))
        };
        let same_host = if self.context.config.same_host_path {
            same_host::connect(address)
        } else {
            None
        };
        let mut socket = match same_host {
            Some(stream) => Socket::SameHost(SameHostStream::connecting(stream)),
            None => {
                let stream = TcpStream::connect(address).map_err(failed)?;
                match &self.context.tls {
                    Some(tls) => Socket::Tls(Box::new(tls.connect(stream).map_err(failed)?)),
                    None => Socket::Tcp(stream),
                }
            }
        };
        self.register(&mut socket, token).map_err(failed)?;
        Ok(socket)
    }

    pub(super) fn register(&self, socket: &mut Socket, token: usize) -> std::io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll
            .registry()
            .register(socket, Token(token), interest)
    }

    /// Schedules another dial if the peer dropped the connection before it was open; false if it
    /// ended for another reason, or nobody needs it any more.
    pub(super) fn comes_again(&mut self, token: usize) -> bool {
        let Some(shared) = self.connections.get(&token) else {
            return false;
        };
        let mut connection = shared.lock();
        let needed = matches!(&connection.side, Side::Client(channels) if !channels.is_empty());
        if !needed || !connection.dropped_unopened {
            return false;
        }
        if let Err(error) = self.poll.registry().deregister(&mut connection.socket) {
            log::debug!("deregistering a connection: {error}");
        }
        let pause = FIRST_PAUSE * 2_u32.pow(connection.drops.min(DOUBLINGS));
        connection.pause_until(Instant::now() + pause);
        log::debug!("{} dropped an unopened connection", connection.peer);
        true
    }

    /// Dials again for the connections whose pause is over; returns the end of the next pause.
    pub(super) fn dial_again(&mut self, now: Instant) -> Option<Instant> {
        let mut next = None;
        for token in self.opening.clone() {
            let Some(shared) = self.connections.get(&token).map(Arc::clone) else {
                continue;
            };
            let mut connection = shared.lock();
            let (Some(pause), Peer::Address(address)) = (connection.pause, connection.peer) else {
                continue;
            };
            if pause > now {
                next = next.into_iter().chain([pause]).min();
                continue;
            }
            match self.dial(address, token) {
                Ok(socket) => connection.dialled(socket),
                Err(error) => {
                    drop(connection);
                    self.drop_connection(token, &error);
                }
            }
        }
        next
    }
}
