//! One type for the sockets of a connection: TCP, or Unix on the same host.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use mio::event::Source;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustix::net::sockopt;

use super::same_host_stream::SameHostStream;
use super::tls::TlsStream;

/// Silence after which a peer is probed.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
/// Time between two probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Probes without an answer after which a peer is gone.
const KEEPALIVE_PROBES: u32 = 3;
/// Time that sent bytes may remain unacknowledged, in milliseconds.
#[cfg(target_os = "linux")]
const USER_TIMEOUT_MS: u32 = 30_000;

/// A non-blocking stream socket.
pub(super) enum Socket {
    /// To any host.
    Tcp(TcpStream),
    /// To any host, encrypted.
    Tls(Box<TlsStream>),
    /// To a process of this host.
    SameHost(SameHostStream),
}

impl Socket {
    /// Returns the error of a failed attempt to connect, once.
    pub(super) fn take_error(&self) -> io::Result<Option<io::Error>> {
        match self {
            Self::Tcp(stream) => stream.take_error(),
            Self::Tls(stream) => stream.socket().take_error(),
            Self::SameHost(stream) => stream.stream().take_error(),
        }
    }

    /// Returns whether connecting has ended; an error if it has failed.
    pub(super) fn check_connected(&self) -> io::Result<bool> {
        let connected = match self {
            Self::Tcp(stream) => stream.peer_addr().map(drop),
            Self::Tls(stream) => stream.socket().peer_addr().map(drop),
            Self::SameHost(stream) => stream.stream().peer_addr().map(drop),
        };
        match connected {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends small frames at once, and detects within half a minute that a peer has vanished
    /// silently; Unix sockets do both by themselves.
    pub(super) fn configure(&self) -> io::Result<()> {
        let stream = match self {
            Self::Tcp(stream) => stream,
            Self::Tls(stream) => stream.socket(),
            Self::SameHost(_) => return Ok(()),
        };
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL)?;
        sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES)?;
        // Keepalive does not probe while sent bytes are unacknowledged.
        #[cfg(target_os = "linux")]
        sockopt::set_tcp_user_timeout(stream, USER_TIMEOUT_MS)?;
        Ok(())
    }

    /// Leaves arrivals to other threads: the poll of `registry` reports only room.
    pub(super) fn leave_reading(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.reregister(registry, token, Interest::WRITABLE),
            Self::Tls(stream) => {
                let stream = stream.socket_mut();
                stream.reregister(registry, token, Interest::WRITABLE)
            }
            Self::SameHost(stream) => stream.leave_reading(),
        }
    }

    /// Returns whether `flush` has something to do: bytes that no `write` will report again.
    pub(super) fn wants_flush(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::SameHost(_) => false,
            Self::Tls(stream) => stream.wants_write(),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Tls(stream) => stream.socket().as_fd(),
            Self::SameHost(stream) => stream.stream().as_fd(),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(into),
            Self::Tls(stream) => stream.read(into),
            Self::SameHost(stream) => stream.read(into),
        }
    }

    fn read_vectored(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read_vectored(into),
            Self::Tls(stream) => stream.read_vectored(into),
            Self::SameHost(stream) => stream.read_vectored(into),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(from),
            Self::Tls(stream) => stream.write(from),
            Self::SameHost(stream) => stream.write(from),
        }
    }

    fn write_vectored(&mut self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write_vectored(from),
            Self::Tls(stream) => stream.write_vectored(from),
            Self::SameHost(stream) => stream.write_vectored(from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(_) | Self::SameHost(_) => Ok(()),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

impl Source for Socket {
    fn register(&mut self, registry: &Registry, token: Token, on: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.register(registry, token, on),
            Self::Tls(stream) => stream.socket_mut().register(registry, token, on),
            Self::SameHost(stream) => stream.register(registry, token, on),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, on: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.reregister(registry, token, on),
            Self::Tls(stream) => stream.socket_mut().reregister(registry, token, on),
            Self::SameHost(stream) => stream.reregister(registry, token, on),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.deregister(registry),
            Self::Tls(stream) => stream.socket_mut().deregister(registry),
            Self::SameHost(stream) => stream.deregister(registry),
        }
    }
}

/// Peer of a connection, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    /// An executor with this data port, or a peer that connected from this address.
    Address(SocketAddr),
    /// A process of this host that connected to the Unix socket.
    SameHost,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::SameHost => f.write_str("a process of this host"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A half-open connection is noticed: the options are really set.
    #[test]
    fn sockets_probe_silent_peers() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        let socket = Socket::Tcp(TcpStream::from_std(stream));
        socket.configure().unwrap();
        let Socket::Tcp(stream) = &socket else {
            unreachable!("it was made so above");
        };
        assert!(stream.nodelay().unwrap());
        assert!(sockopt::socket_keepalive(stream).unwrap());
        assert_eq!(sockopt::tcp_keepidle(stream).unwrap(), KEEPALIVE_IDLE);
        assert_eq!(sockopt::tcp_keepintvl(stream).unwrap(), KEEPALIVE_INTERVAL);
        assert_eq!(sockopt::tcp_keepcnt(stream).unwrap(), KEEPALIVE_PROBES);
        #[cfg(target_os = "linux")]
        assert_eq!(sockopt::tcp_user_timeout(stream).unwrap(), USER_TIMEOUT_MS);
    }
}
