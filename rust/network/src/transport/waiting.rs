//! Waiting places: of a gate's reader, for other threads and its channels' sockets, and of a
//! partition's writer, for buffers of its pool and its readers' sockets.
//!
//! A waiting thread receives by itself.  A record then causes a single wake-up, of the thread that
//! needs it, and its bytes are in the cache of that thread's core; and credit that releases a
//! writer's buffers wakes the writer, which sends and refills them.  The following is worded for
//! readers; a writer is notified when its pool becomes available.
//!
//! Every gate with remote channels has a set of sockets (`socket_set`): those of its connections.
//!  The kernel wakes one thread for an arrival: among waiting readers, the one whose gate has had
//! the socket longest; it receives for all channels of the connection and wakes the readers of
//! other gates in the usual way.  Last in line is the I/O thread's own set (`backstop`), for the
//! time when no reader waits.
//!
//! `docs/waiting.md` has the rules of all of them, the states of a connection and the order of
//! locks: here W-2 (`asleep`), W-3 (`unread`), W-4 (`owing`), W-6 and W-8 (`role`).

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use penstock_memory::AvailabilityFuture;

use super::connection::{Connection, Received};
use super::socket_set::SocketSet;
use super::{Command, Transport};
use crate::error::{Error, Result};
use crate::sync::{Arc, AtomicBool, Condvar, Mutex, MutexGuard, Ordering, Weak};

/// A waiting place.
#[derive(Debug)]
pub(crate) struct Waiting {
    changed: Condvar,
    /// Set if some channel is remote.
    sockets: Option<Sockets>,
}

/// The sockets of a gate, or of a partition.
struct Sockets {
    transport: Arc<Transport>,
    set: SocketSet,
    /// Set before the reader sleeps at `set`; the thread that clears it owes a ring.  Swaps only.
    asleep: AtomicBool,
    connections: Mutex<HashMap<usize, Weak<Mutex<Connection>>>>,
    /// Belongs to the one thread that sleeps at `set` and receives; others sleep on `changed`.
    role: Mutex<Role>,
}

/// Strategy for a connection that another thread holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    Waits,
    Tries,
}

#[derive(Default)]
struct Role {
    ready: Vec<usize>,
    /// Connections with more data than was read.
    unread: Vec<usize>,
    /// Connections with credits to announce to the producers.
    owing: Vec<usize>,
    /// The future that rings when it completes.
    rung_by: Option<AvailabilityFuture>,
}

impl std::fmt::Debug for Sockets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sockets")
            .field("set", &self.set)
            .field("asleep", &self.asleep)
            .finish_non_exhaustive()
    }
}

impl Waiting {
    /// Creates a waiting place for channels of this executor only.
    pub(crate) fn local() -> Self {
        Self {
            changed: Condvar::new(),
            sockets: None,
        }
    }

    /// Creates a waiting place for channels behind connections of `transport`.
    ///
    /// # Errors
    /// `Io` if the kernel has no more files for this process.
    pub(crate) fn remote(transport: &Arc<Transport>) -> Result<Self> {
        let set = SocketSet::new()
            .map_err(|error| Error::io("opening the set of a gate's sockets", &error))?;
        Ok(Self {
            changed: Condvar::new(),
            sockets: Some(Sockets {
                transport: Arc::clone(transport),
                set,
                asleep: AtomicBool::new(false),
                connections: Mutex::default(),
                role: Mutex::default(),
            }),
        })
    }

    /// Returns the transport of the sockets, if any.
    pub(crate) fn transport(&self) -> Option<&Arc<Transport>> {
        self.sockets.as_ref().map(|sockets| &sockets.transport)
    }

    /// Releases `guard`, the lock of `state`, waits for a change, receiving arrivals meanwhile, and
    /// takes the lock again; may return early.
    pub(crate) fn wait<'a, T>(
        &self,
        state: &'a Mutex<T>,
        guard: MutexGuard<'a, T>,
        timeout: Option<Duration>,
    ) -> MutexGuard<'a, T> {
        if let Some(sockets) = &self.sockets
            && let Some(mut role) = sockets.role.try_lock()
        {
            sockets.asleep.swap(true, Ordering::AcqRel);
            drop(guard);
            sockets.receive(&mut role, timeout, Patience::Waits);
            drop(role);
            return state.lock();
        }
        match timeout {
            None => self.changed.wait(guard),
            Some(Duration::ZERO) => guard,
            Some(timeout) => self.changed.wait_timeout(guard, timeout),
        }
    }

    /// Waits until `future` completes or data was received, at most until `timeout`; may return
    /// early.
    pub(crate) fn wait_beside(
        self: &Arc<Self>,
        future: &AvailabilityFuture,
        timeout: Option<Duration>,
    ) {
        let role = self
            .sockets
            .as_ref()
            .and_then(|sockets| Some((sockets, sockets.role.try_lock()?)));
        let Some((sockets, mut role)) = role else {
            let _ = future.wait(timeout);
            return;
        };
        if !role
            .rung_by
            .as_ref()
            .is_some_and(|known| known.is_same(future))
        {
            let bell = Arc::downgrade(self);
            future.on_done(Box::new(move || {
                if let Some(bell) = bell.upgrade() {
                    bell.notify_all();
                }
            }));
            role.rung_by = Some(future.clone());
        }
        sockets.asleep.swap(true, Ordering::AcqRel);
        if future.is_done() {
            sockets.asleep.swap(false, Ordering::AcqRel);
            return;
        }
        sockets.receive(&mut role, timeout, Patience::Waits);
    }

    /// Receives present data, without waiting for data or a lock.
    pub(crate) fn look(&self) {
        if let Some(sockets) = &self.sockets
            && let Some(mut role) = sockets.role.try_lock()
        {
            sockets.receive(&mut role, Some(Duration::ZERO), Patience::Tries);
        }
    }

    /// Wakes all waiting threads; the state has changed under its lock before.
    pub(crate) fn notify_all(&self) {
        self.changed.notify_all();
        if let Some(sockets) = &self.sockets
            && sockets.asleep.load(Ordering::Acquire)
            && sockets.asleep.swap(false, Ordering::AcqRel)
        {
            sockets.set.ring();
        }
    }

    /// Returns whether `attend` would change nothing.
    pub(super) fn attends(&self, token: usize) -> bool {
        match &self.sockets {
            Some(sockets) => sockets.connections.lock().contains_key(&token),
            None => true,
        }
    }

    /// Adds a connection to those from which the reader receives.
    pub(super) fn attend(
        &self,
        shared: &Arc<Mutex<Connection>>,
        connection: &Connection,
    ) -> io::Result<()> {
        let Some(sockets) = &self.sockets else {
            return Ok(());
        };
        let mut connections = sockets.connections.lock();
        connections.retain(|_, connection| connection.strong_count() > 0);
        connections.insert(connection.token, Arc::downgrade(shared));
        sockets.set.add(&connection.socket, connection.token)
    }

    #[cfg(all(test, feature = "loom"))]
    pub(crate) fn set(&self) -> &SocketSet {
        &self.sockets.as_ref().unwrap().set
    }
}

impl Sockets {
    /// Returns a connection in the set; `None` if it has ended, with its socket.
    fn connection(&self, token: usize) -> Option<Arc<Mutex<Connection>>> {
        self.connections.lock().get(&token).and_then(Weak::upgrade)
    }

    /// Sleeps until data arrives, and receives it.
    fn receive(&self, role: &mut Role, timeout: Option<Duration>, patience: Patience) {
        let Role {
            ready,
            unread,
            owing,
            ..
        } = role;
        ready.clear();
        for token in owing.drain(..) {
            if let Some(shared) = self.connection(token)
                && !shared.lock().send_owed()
            {
                self.transport.post(Command::Transmit(token));
            }
        }
        // Unread data is no reason to forget the other sockets.
        let timeout = if unread.is_empty() {
            timeout
        } else {
            Some(Duration::ZERO)
        };
        self.set.wait(ready, timeout);
        self.asleep.swap(false, Ordering::AcqRel);
        unread.retain(|token| !ready.contains(token));
        ready.append(unread);
        for &token in &*ready {
            let Some(shared) = self.connection(token) else {
                continue;
            };
            let mut connection = match patience {
                Patience::Waits => shared.lock(),
                Patience::Tries => match shared.try_lock() {
                    Some(connection) => connection,
                    // The set reports it again.
                    None => continue,
                },
            };
            let received = connection.receive_now();
            let command = match received {
                Received::Some | Received::All => {
                    if received == Received::Some {
                        unread.push(token);
                    }
                    let left = connection
                        .lookout
                        .is_left_to_others(received == Received::Some);
                    left.then_some(Command::Watch(token))
                }
                Received::Failed => {
                    self.connections.lock().remove(&token);
                    if let Err(error) = self.set.remove(&connection.socket) {
                        log::error!("leaving a socket alone: {error}");
                    }
                    Some(Command::Transmit(token))
                }
            };
            if let Err(error) = connection.attend_writers(&shared) {
                log::error!("{error}");
            }
            let command =
                command.or_else(|| connection.has_unsent().then_some(Command::Transmit(token)));
            if connection.owes() {
                owing.push(token);
            }
            drop(connection);
            if let Some(command) = command {
                self.transport.post(command);
            }
        }
    }
}
