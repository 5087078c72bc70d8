//! The I/O thread's eye on the connections that other threads receive from.
//!
//! Once a connection is open, the I/O thread hears of its arrivals by a set of sockets, which its
//! poll watches like a socket.  An arrival that makes no difference to it is a wake-up for nothing,
//! and a stream brings one with every buffer.  After such a one it takes the socket out of its set
//! and looks again at a tick; once nobody has received for a tick, it reads what is there itself,
//! and puts the socket back.
//!
//! At the consuming end an arrival is the business of the gates' readers (`waiting`), whose sets
//! come first: the I/O thread hears of it when none of them waits.  Most come back soon.
//!
//! At the producing end it hears of every arrival.  Those that let something be sent are its
//! business.  Credits that nobody waits for make no difference; a thread that sends by itself
//! (`news`) and runs out of credit reads them, and puts the socket back if there are none
//! (`Connection::fill`).  So while the socket is not in the set, no reader is in want of credit, of
//! a word to go on after an event that blocks, or of a buffer that it has lent and that its pool
//! misses; or a writer has come for such things, and comes again within a tick
//! (`Connection::left_to_writers`).
//!
//! The transitions of `Lookout`, and the rules W-5, W-6 and W-7, are in `docs/waiting.md`.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

use super::connection::{Connection, Phase, Side};
use super::io_thread::schedule;
use super::socket_set::{MAX_READY, SocketSet};
use crate::error::{Error, Result};
use crate::sync::{Arc, Mutex};

/// How long an arrival may wait for another thread than the I/O thread.
const TICK: Duration = Duration::from_millis(1);

/// How the I/O thread learns that a connection has something to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lookout {
    /// By its poll: the consumers are at the other end, or the connection is not open yet.
    Poll,
    /// By its set, where the socket is.
    Set {
        /// The connection's count of reads when it came there, or at the last turn.
        seen: u64,
    },
    /// It looks at every tick.
    Ticks {
        /// The connection's count of reads at the last.
        seen: u64,
    },
    /// It is about to read what nobody has come for.
    Turn,
}

/// The set and the clock.
pub(super) struct Backstop {
    set: Arc<SocketSet>,
    /// Connections that are looked at every tick.
    ticking: Vec<usize>,
    next_tick: Option<Instant>,
    ready: Vec<usize>,
}

impl Backstop {
    /// A set without sockets, whose arrivals the poll reports with `token`.
    pub(super) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        let set = Arc::new(SocketSet::new()?);
        registry.register(&mut SourceFd(&set.raw()), token, Interest::READABLE)?;
        Ok(Self {
            set,
            ticking: Vec::new(),
            next_tick: None,
            ready: Vec::new(),
        })
    }

    /// Something has come.
    pub(super) fn on_arrivals(
        &mut self,
        connections: &HashMap<usize, Arc<Mutex<Connection>>>,
        scheduled: &mut VecDeque<usize>,
    ) {
        loop {
            let mut ready = std::mem::take(&mut self.ready);
            self.set.wait(&mut ready, Some(Duration::ZERO));
            let full = ready.len() == MAX_READY;
            // Those that get a turn are reported until they have had it, behind all others: when
            // none is new, none is left.
            let mut new = false;
            for token in ready.drain(..) {
                let Some(connection) = connections.get(&token) else {
                    continue;
                };
                let mut connection = connection.lock();
                match &connection.side {
                    Side::Client(channels) if !channels.is_empty() => {
                        self.watch(&mut connection);
                        new = true;
                    }
                    _ => new |= give_turn(&mut connection, scheduled),
                }
            }
            self.ready = ready;
            if !(full && new) {
                return;
            }
        }
    }

    /// Leaves what comes to others, and has an eye on them.
    pub(super) fn watch(&mut self, connection: &mut Connection) {
        if !matches!(connection.lookout, Lookout::Set { .. }) {
            return;
        }
        self.forget(connection);
        connection.lookout = Lookout::Ticks {
            seen: connection.received,
        };
        if !self.ticking.contains(&connection.token) {
            self.ticking.push(connection.token);
        }
        self.next_tick.get_or_insert_with(|| Instant::now() + TICK);
    }

    /// Has what comes for a channel that is gone taken at once: its reader will not come.
    pub(super) fn on_left(connection: &mut Connection, scheduled: &mut VecDeque<usize>) {
        match connection.lookout {
            Lookout::Poll => {
                schedule(scheduled, connection);
            }
            lookout => {
                if matches!(lookout, Lookout::Ticks { .. }) {
                    connection.lookout = Lookout::Turn;
                }
                give_turn(connection, scheduled);
            }
        }
    }

    /// When to call `tick`.
    pub(super) fn next_tick(&self) -> Option<Instant> {
        self.next_tick
    }

    /// Gives a turn to the connections that nobody has received from.
    pub(super) fn tick(
        &mut self,
        connections: &HashMap<usize, Arc<Mutex<Connection>>>,
        scheduled: &mut VecDeque<usize>,
    ) {
        let Some(tick) = self.next_tick else {
            return;
        };
        let now = Instant::now();
        if now < tick {
            return;
        }
        self.ticking.retain(|token| {
            let Some(connection) = connections.get(token) else {
                return false;
            };
            // Whoever has it receives right now, or sends; the next tick will tell.
            let Some(mut connection) = connection.try_lock() else {
                return true;
            };
            let Lookout::Ticks { seen } = connection.lookout else {
                return false;
            };
            if seen != connection.received {
                connection.lookout = Lookout::Ticks {
                    seen: connection.received,
                };
                return true;
            }
            connection.lookout = Lookout::Turn;
            connection.left_to_writers = false;
            give_turn(&mut connection, scheduled);
            false
        });
        self.next_tick = (!self.ticking.is_empty()).then(|| now + TICK);
    }

    /// After a turn: settles how to hear of the next arrival.
    pub(super) fn after_turn(
        &mut self,
        shared: &Arc<Mutex<Connection>>,
        connection: &mut Connection,
        registry: &Registry,
    ) -> Result<()> {
        let received = connection.received;
        match (connection.lookout, &mut connection.side) {
            _ if connection.readable || !matches!(connection.phase, Phase::Open) => {}
            (Lookout::Poll, _) => {
                self.take_over(shared, connection, registry)
                    .map_err(|error| Error::io("leaving a connection to its readers", &error))?;
                connection.look_out()?;
            }
            (Lookout::Turn, _) => connection.look_out()?,
            (Lookout::Set { seen }, Side::Server(readers)) if seen != received => {
                let moved = readers.take_moved();
                if moved || readers.wait() || connection.outbound.misses_buffers() {
                    connection.lookout = Lookout::Set { seen: received };
                } else {
                    self.watch(connection);
                }
            }
            _ => {}
        }
        connection.attend_writers(shared)
    }

    /// Tells the poll to leave the arrivals of an open connection to the sets.
    fn take_over(
        &self,
        shared: &Arc<Mutex<Connection>>,
        connection: &mut Connection,
        registry: &Registry,
    ) -> io::Result<()> {
        let token = Token(connection.token);
        connection.socket.leave_reading(registry, token)?;
        connection.set = Some(Arc::clone(&self.set));
        if let Side::Client(channels) = &connection.side {
            for waiting in channels.iter().filter_map(|channel| channel.waiting()) {
                if !waiting.attends(connection.token) {
                    waiting.attend(shared, connection)?;
                }
            }
        }
        Ok(())
    }

    /// Takes a socket out of the set.
    pub(super) fn forget(&self, connection: &Connection) {
        if matches!(connection.lookout, Lookout::Set { .. })
            && let Err(error) = self.set.remove(&connection.socket)
        {
            log::error!("taking a socket out of its set: {error}");
        }
    }
}

/// Has the I/O thread read all there is, and see whether that was the end; false when it was about
/// to anyway.
fn give_turn(connection: &mut Connection, scheduled: &mut VecDeque<usize>) -> bool {
    connection.readable = true;
    connection.ending = true;
    schedule(scheduled, connection)
}
