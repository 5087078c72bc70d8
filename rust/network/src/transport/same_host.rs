//! The same-host path: a Unix socket beside every data port.
//!
//! An executor listens on its data port and on a Unix socket in Linux's abstract namespace whose
//! name is derived from the data port's address.  Abstract names, like ports, belong to a network
//! namespace, in which a port has one owner: a process that finds the name of an address has found
//! the executor behind it, on its own host.  From another host or namespace the name is not found,
//! and TCP is used.  Processes of other users are neither trusted to hold a name nor accepted; both
//! paths require the token all the same.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr as UnixAddr;

use mio::net::{UnixListener, UnixStream};

use super::listeners::BACKLOG;

/// Prefix of every name; the pure runtime uses the same.
const NAME_PREFIX: &str = "penstock-data/";
/// Number of ports tried to find one whose name is free.
pub(super) const BIND_ATTEMPTS: usize = 16;
/// Bytes that the kernel may hold for the reader; it doubles the requested size and has a limit.
const SEND_BUFFER_BYTES: usize = 1 << 20;

/// Returns the abstract address beside a data port.
fn name_of(address: SocketAddr) -> io::Result<UnixAddr> {
    UnixAddr::from_abstract_name(format!("{NAME_PREFIX}{}/{}", address.ip(), address.port()))
}

/// Listens beside the data port `address`; `None` if another process holds the name.
pub(super) fn listen(address: SocketAddr) -> Option<UnixListener> {
    let listening = name_of(address)
        .and_then(|name| UnixListener::bind_addr(&name))
        .and_then(|listener| {
            rustix::net::listen(&listener, BACKLOG)?;
            Ok(listener)
        });
    match listening {
        Ok(listener) => Some(listener),
        Err(error) => {
            log::debug!("no same-host path beside {address}: {error}");
            None
        }
    }
}

/// Connects to the executor with the data port `address` if it is on this host.
pub(super) fn connect(address: SocketAddr) -> Option<UnixStream> {
    let connected = dial(address).or_else(|error| match wildcard(address) {
        Some(wildcard) if error.kind() == io::ErrorKind::ConnectionRefused => dial(wildcard),
        _ => Err(error),
    });
    match connected {
        Ok(stream) => Some(stream),
        Err(error) => {
            log::debug!("{address} is reached by TCP: {error}");
            None
        }
    }
}

fn dial(address: SocketAddr) -> io::Result<UnixStream> {
    let stream = UnixStream::connect_addr(&name_of(address)?)?;
    if !is_own(&stream) {
        return Err(io::Error::other(
            "its same-host name is held by another user's process",
        ));
    }
    prepare(&stream)?;
    Ok(stream)
}

/// Returns whether the process at the other end belongs to this user.
pub(super) fn is_own(stream: &UnixStream) -> bool {
    rustix::net::sockopt::socket_peercred(stream)
        .is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}

/// Allows more than one buffer in flight.
pub(super) fn prepare(stream: &UnixStream) -> io::Result<()> {
    rustix::net::sockopt::set_socket_send_buffer_size(stream, SEND_BUFFER_BYTES)?;
    Ok(())
}

/// Returns the wildcard address of this host's executor that listens on all addresses.
fn wildcard(address: SocketAddr) -> Option<SocketAddr> {
    // Only an address of this host can be bound.
    UdpSocket::bind((address.ip(), 0)).ok()?;
    let any: IpAddr = match address.ip() {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    Some(SocketAddr::new(any, address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port_of_our_own() -> (std::net::TcpListener, SocketAddr) {
        let port = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = port.local_addr().expect("an address");
        (port, address)
    }

    #[test]
    fn finds_only_the_executor_of_that_port() {
        let (_first, address) = port_of_our_own();
        let (_second, other) = port_of_our_own();
        let _listener = listen(address).expect("listening");
        assert!(connect(address).is_some());
        assert!(connect(other).is_none());
    }

    #[test]
    fn finds_an_executor_that_listens_everywhere() {
        let port = std::net::TcpListener::bind(("0.0.0.0", 0)).expect("a port");
        let address = port.local_addr().expect("an address");
        let _listener = listen(address).expect("listening");
        let reached = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port());
        assert!(connect(reached).is_some());
        // An address of documentation's, which no host has.
        let foreign = SocketAddr::new(Ipv4Addr::new(192, 0, 2, 1).into(), address.port());
        assert!(connect(foreign).is_none());
    }

    #[test]
    fn a_taken_name_is_left_to_its_owner() {
        let (_port, address) = port_of_our_own();
        let _listener = listen(address).expect("listening");
        assert!(listen(address).is_none());
    }
}
