//! One type for the sockets a connection may run over: TCP, or Unix on the same host.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::SocketAddr;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};

/// A stream socket that does not block.
pub(super) enum Socket {
    /// To any host.
    Tcp(TcpStream),
    /// To a process of this host.
    SameHost(UnixStream),
}

impl Socket {
    /// The error of a failed attempt to connect, once.
    pub(super) fn take_error(&self) -> io::Result<Option<io::Error>> {
        match self {
            Self::Tcp(stream) => stream.take_error(),
            Self::SameHost(stream) => stream.take_error(),
        }
    }

    /// Whether connecting has come to its end; an error when it has failed.
    pub(super) fn check_connected(&self) -> io::Result<bool> {
        let connected = match self {
            Self::Tcp(stream) => stream.peer_addr().map(drop),
            Self::SameHost(stream) => stream.peer_addr().map(drop),
        };
        match connected {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends small frames at once; Unix sockets do so anyway.
    pub(super) fn set_nodelay(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nodelay(true),
            Self::SameHost(_) => Ok(()),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(into),
            Self::SameHost(stream) => stream.read(into),
        }
    }

    fn read_vectored(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read_vectored(into),
            Self::SameHost(stream) => stream.read_vectored(into),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(from),
            Self::SameHost(stream) => stream.write(from),
        }
    }

    fn write_vectored(&mut self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write_vectored(from),
            Self::SameHost(stream) => stream.write_vectored(from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for Socket {
    fn register(&mut self, registry: &Registry, token: Token, on: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.register(registry, token, on),
            Self::SameHost(stream) => stream.register(registry, token, on),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, on: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.reregister(registry, token, on),
            Self::SameHost(stream) => stream.reregister(registry, token, on),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.deregister(registry),
            Self::SameHost(stream) => stream.deregister(registry),
        }
    }
}

/// Who is at the other end, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    /// An executor with this data port, or whoever connected from this address.
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
