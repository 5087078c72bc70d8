//! Sockets that a thread sleeps on together with a bell.
//!
//! A socket may be in several sets at once.  The kernel reports an arrival in the order in which
//! the socket was added to the sets, and stops at the first set on which a thread sleeps
//! (`EPOLLEXCLUSIVE`); the other sets store the arrival.  So exactly one sleeping thread wakes for
//! an arrival, and a thread that sleeps later still receives reports of unread data (the sets are
//! level-triggered).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

/// Token of the bell in `wait`; no connection has it.
const BELL: u64 = u64::MAX;
/// Maximum number of sockets reported at once; the others come first the next time.
pub(super) const MAX_READY: usize = 32;

/// The set.
#[derive(Debug)]
pub(crate) struct SocketSet {
    epoll: OwnedFd,
    bell: OwnedFd,
    #[cfg(feature = "loom")]
    sleeper: crate::sync::Sleeper,
}

impl SocketSet {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        // Edge-triggered: a ring is reported once and need not be read.
        let on = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &bell, EventData::new_u64(BELL), on)?;
        Ok(Self {
            epoll,
            bell,
            #[cfg(feature = "loom")]
            sleeper: crate::sync::Sleeper::default(),
        })
    }

    /// Adds a socket, behind all sets that contain it.
    pub(crate) fn add(&self, socket: impl AsFd, token: usize) -> io::Result<()> {
        let on = EventFlags::IN | EventFlags::EXCLUSIVE;
        epoll::add(&self.epoll, socket, EventData::new_u64(token as u64), on)?;
        #[cfg(feature = "loom")]
        self.sleeper.poke();
        Ok(())
    }

    pub(crate) fn remove(&self, socket: impl AsFd) -> io::Result<()> {
        epoll::delete(&self.epoll, socket)?;
        Ok(())
    }

    /// Wakes the thread that sleeps here, or else the next one that would.
    pub(crate) fn ring(&self) {
        // Full only after 2^64 - 2 rings.
        if let Err(error) = rustix::io::write(&self.bell, &1_u64.to_ne_bytes()) {
            log::error!("ringing for the reader of a gate: {error}");
        }
        #[cfg(feature = "loom")]
        self.sleeper.poke();
    }

    /// Adds the tokens of readable sockets to `ready`; sleeps until there are some, the bell rings,
    /// a signal arrives, or the timeout passes.
    pub(crate) fn wait(&self, ready: &mut Vec<usize>, timeout: Option<Duration>) {
        #[cfg(feature = "loom")]
        self.sleeper
            .sleep(timeout, || self.poll(ready, Some(Duration::ZERO)));
        #[cfg(not(feature = "loom"))]
        self.poll(ready, timeout);
    }

    /// Like `wait`; returns whether anything was reported.
    fn poll(&self, ready: &mut Vec<usize>, timeout: Option<Duration>) -> bool {
        let mut events = [MaybeUninit::uninit(); MAX_READY];
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let (reported, _) = match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok(reported) => reported,
            Err(Errno::INTR) => return true,
            Err(error) => panic!("waiting for sockets: {error}"),
        };
        let tokens = reported.iter().map(|event| event.data.u64());
        ready.extend(
            tokens
                .filter(|&token| token != BELL)
                .map(|token| token as usize),
        );
        !reported.is_empty()
    }

    /// Returns the descriptor, to wait for the set as for a socket.
    pub(super) fn raw(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// Replaces the kernel: reports an arrival; returns whether a thread slept here.
    #[cfg(all(test, feature = "loom"))]
    pub(crate) fn poke(&self) -> bool {
        self.sleeper.poke()
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    fn ready(set: &SocketSet) -> Vec<usize> {
        let mut ready = Vec::new();
        set.wait(&mut ready, Some(Duration::ZERO));
        ready
    }

    #[test]
    fn reports_what_is_unread_until_it_is_read() {
        let set = SocketSet::new().unwrap();
        let (mut near, mut far) = UnixStream::pair().unwrap();
        set.add(&near, 7).unwrap();
        assert!(ready(&set).is_empty());
        far.write_all(&[1]).unwrap();
        assert_eq!(ready(&set), [7]);
        assert_eq!(ready(&set), [7]);
        near.read_exact(&mut [0]).unwrap();
        assert!(ready(&set).is_empty());
        drop(far);
        assert_eq!(ready(&set), [7]);
        set.remove(&near).unwrap();
        assert!(ready(&set).is_empty());
    }

    #[test]
    fn a_ring_is_heard_once() {
        let set = SocketSet::new().unwrap();
        set.ring();
        set.ring();
        // Would not return otherwise.
        let mut ready = Vec::new();
        set.wait(&mut ready, None);
        assert!(ready.is_empty());
        assert!(!set.poll(&mut ready, Some(Duration::ZERO)));
    }

    #[test]
    fn the_first_set_with_a_sleeper_is_told() {
        let sets = [SocketSet::new().unwrap(), SocketSet::new().unwrap()];
        let (near, mut far) = UnixStream::pair().unwrap();
        for set in &sets {
            set.add(&near, 1).unwrap();
        }
        far.write_all(&[1]).unwrap();
        // Nobody slept: both have it in mind.
        assert_eq!(sets.each_ref().map(ready), [[1], [1]]);
    }
}
