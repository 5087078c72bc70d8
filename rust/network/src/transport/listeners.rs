//! Where connections come in: the data port and the same-host socket beside it.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};

use super::same_host;
use super::same_host_stream::SameHostStream;
use super::socket::{Peer, Socket};

/// Token of the data port.
pub(super) const TCP_LISTENER: Token = Token(0);
/// Token of the same-host socket.
pub(super) const SAME_HOST_LISTENER: Token = Token(1);

/// The listening sockets; edges are remembered, for the poll reports them once.
pub(super) struct Listeners {
    tcp: TcpListener,
    same_host: Option<UnixListener>,
    tcp_ready: bool,
    same_host_ready: bool,
}

impl Listeners {
    /// Binds the data port and, if asked, the socket beside it; returns the data port's address.
    pub(super) fn bind(
        host: &str,
        same_host: bool,
        registry: &Registry,
    ) -> io::Result<(Self, SocketAddr)> {
        let bound = std::net::TcpListener::bind((host, 0))?;
        bound.set_nonblocking(true)?;
        let address = bound.local_addr()?;
        let mut tcp = TcpListener::from_std(bound);
        registry.register(&mut tcp, TCP_LISTENER, Interest::READABLE)?;
        let mut same_host = same_host.then(|| same_host::listen(address)).flatten();
        if let Some(listener) = &mut same_host {
            registry.register(listener, SAME_HOST_LISTENER, Interest::READABLE)?;
        }
        let listeners = Self {
            tcp,
            same_host,
            tcp_ready: true,
            same_host_ready: true,
        };
        Ok((listeners, address))
    }

    /// Whether somebody may be waiting.
    pub(super) fn is_ready(&self) -> bool {
        self.tcp_ready || self.same_host_ready
    }

    /// The poll says that somebody waits.
    pub(super) fn on_event(&mut self, token: Token) {
        if token == TCP_LISTENER {
            self.tcp_ready = true;
        } else {
            self.same_host_ready = true;
        }
    }

    /// The next one that waits.
    pub(super) fn accept(&mut self) -> Option<(Socket, Peer)> {
        if let Some((stream, peer)) = next(&mut self.tcp_ready, || self.tcp.accept()) {
            return Some((Socket::Tcp(stream), Peer::Address(peer)));
        }
        let Some(listener) = &self.same_host else {
            self.same_host_ready = false;
            return None;
        };
        let (stream, _) = next(&mut self.same_host_ready, || {
            let accepted = listener.accept()?;
            same_host::prepare(&accepted.0)?;
            Ok(accepted)
        })?;
        let stream = SameHostStream::accepted(stream);
        Some((Socket::SameHost(stream), Peer::SameHost))
    }
}

/// Accepts until there is one, or nobody is left.
fn next<T>(ready: &mut bool, mut accept: impl FnMut() -> io::Result<T>) -> Option<T> {
    while *ready {
        match accept() {
            Ok(accepted) => return Some(accepted),
            Err(error) if error.kind() == ErrorKind::WouldBlock => *ready = false,
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                ) => {}
            Err(error) => {
                log::warn!("accepting a connection: {error}");
                *ready = false;
            }
        }
    }
    None
}
