//! Listeners of the data port and of the same-host socket beside it.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Instant;

use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::same_host;
use super::same_host_stream::SameHostStream;
use super::socket::{Peer, Socket};

/// Token of the data port.
pub(super) const TCP_LISTENER: Token = Token(0);
/// Token of the same-host socket.
pub(super) const SAME_HOST_LISTENER: Token = Token(1);

/// Connections that the kernel queues until they are accepted; it has its own limit.
pub(super) const BACKLOG: i32 = 1024;

/// The listening sockets; edges are stored, as the poll reports them once.
pub(super) struct Listeners {
    tcp: TcpListener,
    same_host: Option<UnixListener>,
    tcp_ready: bool,
    same_host_ready: bool,
    /// Time at which the system may again have the resources for accepting.
    paused_until: Option<Instant>,
}

impl Listeners {
    /// Binds the data port and, if requested, the socket beside it; returns the data port's
    /// address.
    pub(super) fn bind(
        host: &str,
        same_host: bool,
        registry: &Registry,
    ) -> io::Result<(Self, SocketAddr)> {
        let (bound, mut same_host) = if same_host {
            bound(host, same_host::listen)?
        } else {
            (std::net::TcpListener::bind((host, 0))?, None)
        };
        // Every executor of a large job may connect at the same time.
        rustix::net::listen(&bound, BACKLOG)?;
        bound.set_nonblocking(true)?;
        let address = bound.local_addr()?;
        let mut tcp = TcpListener::from_std(bound);
        registry.register(&mut tcp, TCP_LISTENER, Interest::READABLE)?;
        if let Some(listener) = &mut same_host {
            registry.register(listener, SAME_HOST_LISTENER, Interest::READABLE)?;
        }
        let listeners = Self {
            tcp,
            same_host,
            tcp_ready: true,
            same_host_ready: true,
            paused_until: None,
        };
        Ok((listeners, address))
    }

    /// Returns whether a connection may be waiting and can be accepted.
    pub(super) fn is_ready(&self) -> bool {
        self.paused_until.is_none() && (self.tcp_ready || self.same_host_ready)
    }

    /// Notes that the poll reported a waiting connection.
    pub(super) fn on_event(&mut self, token: Token) {
        if token == TCP_LISTENER {
            self.tcp_ready = true;
        } else {
            self.same_host_ready = true;
        }
    }

    /// Accepts no connection until `moment`.
    pub(super) fn pause_until(&mut self, moment: Instant) {
        self.paused_until = Some(moment);
    }

    /// Ends an elapsed pause; returns the end of a pending one, or now if connections may have
    /// waited for it.
    pub(super) fn resume(&mut self, now: Instant) -> Option<Instant> {
        let until = self.paused_until?;
        if until <= now {
            self.paused_until = None;
        }
        Some(until)
    }

    /// Returns the next waiting connection, if any.
    ///
    /// # Errors
    /// The system lacks resources for accepting: descriptors, memory.  Connections keep waiting.
    pub(super) fn accept(&mut self) -> io::Result<Option<(Socket, Peer)>> {
        if self.paused_until.is_some() {
            return Ok(None);
        }
        if let Some((stream, peer)) = next(&mut self.tcp_ready, &self.tcp, TcpListener::accept)? {
            return Ok(Some((Socket::Tcp(stream), Peer::Address(peer))));
        }
        let Some(listener) = &self.same_host else {
            self.same_host_ready = false;
            return Ok(None);
        };
        let accepted = next(&mut self.same_host_ready, listener, UnixListener::accept)?;
        let Some((stream, _)) = accepted else {
            return Ok(None);
        };
        same_host::prepare(&stream)?;
        let stream = SameHostStream::accepted(stream);
        Ok(Some((Socket::SameHost(stream), Peer::SameHost)))
    }
}

/// Binds the data port, and the socket beside it.
///
/// A port whose socket name another process holds is exchanged for another port: consumers of this
/// host would connect to that process.  If none is free, the port uses TCP only.
fn bound(
    host: &str,
    listen_beside: impl Fn(SocketAddr) -> Option<UnixListener>,
) -> io::Result<(std::net::TcpListener, Option<UnixListener>)> {
    // Kept until another port is found, or the kernel might choose one of them again.
    let mut given_up = Vec::new();
    loop {
        let port = std::net::TcpListener::bind((host, 0))?;
        let beside = listen_beside(port.local_addr()?);
        if beside.is_some() || given_up.len() + 1 == same_host::BIND_ATTEMPTS {
            return Ok((port, beside));
        }
        given_up.push(port);
    }
}

/// Accepts until there is a connection, or none waits.
fn next<L: AsFd, T>(
    ready: &mut bool,
    listener: &L,
    accept: impl Fn(&L) -> io::Result<T>,
) -> io::Result<Option<T>> {
    while *ready {
        match accept(listener) {
            Ok(accepted) => return Ok(Some(accepted)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => *ready = false,
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                ) => {}
            // The system reports this before it checks for waiting connections.
            Err(_) if !is_awaited(listener) => *ready = false,
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Returns whether a connection waits to be accepted; true if the system does not tell.
fn is_awaited(listener: &impl AsFd) -> bool {
    let mut polled = [PollFd::new(listener, PollFlags::IN)];
    !matches!(poll(&mut polled, Some(&Timespec::default())), Ok(0))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_port_whose_name_is_taken_is_given_up() {
        let asked = RefCell::new(Vec::new());
        let (port, beside) = bound("127.0.0.1", |address| {
            asked.borrow_mut().push(address);
            // Another process holds the name of the first.
            (asked.borrow().len() > 1)
                .then(|| same_host::listen(address))
                .flatten()
        })
        .expect("bound");
        assert!(beside.is_some());
        let asked = asked.into_inner();
        assert_eq!(asked.len(), 2);
        assert_ne!(asked[0], asked[1]);
        assert_eq!(asked[1], port.local_addr().expect("an address"));
    }

    #[test]
    fn without_a_free_name_there_is_tcp() {
        let (port, beside) = bound("127.0.0.1", |_| None).expect("bound");
        assert!(beside.is_none());
        assert!(std::net::TcpStream::connect(port.local_addr().expect("an address")).is_ok());
    }
}
