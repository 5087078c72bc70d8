//! The I/O thread's watch over the connections that other threads receive from.
//!
//! Once a connection is open, the I/O thread is notified of its arrivals by a set of sockets, which
//! its poll watches like a socket.  An arrival that requires no action of it is a useless wake-up,
//! and a stream causes one with every buffer.  After such a wake-up it takes the socket out of its
//! set and checks it at the next tick; once nobody has received for a tick, it reads the data
//! itself, and puts the socket back.
//!
//! At the consuming end arrivals are the business of the gates' readers (`waiting`), whose sets
//! come first: the I/O thread is notified only when none of them waits.  Most return soon.
//!
//! At the producing end it is notified of every arrival.  It handles those that allow something to
//! be sent.  Credits that nobody waits for require no action; a thread that sends by itself
//! (`news`) and runs out of credit reads them, and puts the socket back if there are none
//! (`Connection::fill`).  So while the socket is not in the set, no reader needs credit, a
//! resumption after a blocking event, or a lent buffer that its pool misses; or a writer has come
//! for these, and returns within a tick (`Lookout::leave_to_writers`).
//!
//! The machine of each connection (`lookout`) decides which of these applies; this module has the
//! actions of the I/O thread: its set, its clock, its turns.  The rules W-5, W-6 and W-7 are in
//! `docs/waiting.md`.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

use super::connection::{Connection, Phase, Side};
use super::io_thread::schedule;
use super::lookout::{Event, Step};
use super::socket_set::{MAX_READY, SocketSet};
use crate::error::{Error, Result};
use crate::gate::RemoteInputChannel;
use crate::sync::{Arc, Mutex};

/// Time that an arrival may wait for a thread other than the I/O thread.
const TICK: Duration = Duration::from_millis(1);

/// The set and the clock.
pub(super) struct Backstop {
    set: Arc<SocketSet>,
    /// Connections that are checked at every tick.
    ticking: Vec<usize>,
    /// Channels whose credits gather while their producers have none.
    gathering: Vec<Arc<RemoteInputChannel>>,
    next_tick: Option<Instant>,
    ready: Vec<usize>,
}

impl Backstop {
    /// Creates an empty set, whose arrivals the poll reports with `token`.
    pub(super) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        let set = Arc::new(SocketSet::new()?);
        registry.register(&mut SourceFd(&set.raw()), token, Interest::READABLE)?;
        Ok(Self {
            set,
            ticking: Vec::new(),
            gathering: Vec::new(),
            next_tick: None,
            ready: Vec::new(),
        })
    }

    #[cfg(all(test, feature = "loom"))]
    pub(super) fn set(&self) -> &Arc<SocketSet> {
        &self.set
    }

    /// Handles arrivals.
    pub(super) fn on_arrivals(
        &mut self,
        connections: &HashMap<usize, Arc<Mutex<Connection>>>,
        scheduled: &mut VecDeque<usize>,
    ) {
        loop {
            let mut ready = std::mem::take(&mut self.ready);
            self.set.wait(&mut ready, Some(Duration::ZERO));
            let full = ready.len() == MAX_READY;
            // Connections with a turn are reported until they have had it, behind all others: if
            // none is new, none is left.
            let mut new = false;
            for token in ready.drain(..) {
                let Some(connection) = connections.get(&token) else {
                    continue;
                };
                let mut connection = connection.lock();
                let for_readers =
                    matches!(&connection.side, Side::Client(channels) if !channels.is_empty());
                match connection.lookout.on(Event::Arrived { for_readers }) {
                    Step::StartTicking => {
                        self.start_ticking(&connection);
                        new = true;
                    }
                    Step::ReadNow => new |= schedule(scheduled, &mut connection),
                    _ => {}
                }
            }
            self.ready = ready;
            if !(full && new) {
                return;
            }
        }
    }

    /// Leaves arrivals to other threads, and watches the connection.
    pub(super) fn watch(&mut self, connection: &mut Connection) {
        if connection.lookout.on(Event::LeftToOthers) == Step::StartTicking {
            self.start_ticking(connection);
        }
    }

    /// Watches gathering credits: their reader may stop before they are announced.
    pub(super) fn watch_credit(&mut self, channel: Arc<RemoteInputChannel>) {
        self.gathering.push(channel);
        self.next_tick.get_or_insert_with(|| Instant::now() + TICK);
    }

    fn start_ticking(&mut self, connection: &Connection) {
        connection.leave_set();
        if !self.ticking.contains(&connection.token) {
            self.ticking.push(connection.token);
        }
        self.next_tick.get_or_insert_with(|| Instant::now() + TICK);
    }

    /// Reads data for a released channel at once: its reader will not come.
    pub(super) fn on_left(connection: &mut Connection, scheduled: &mut VecDeque<usize>) {
        if matches!(
            connection.lookout.on(Event::ChannelLeft),
            Step::ReadNow | Step::Turn
        ) {
            schedule(scheduled, connection);
        }
    }

    /// Returns the time of the next `tick`.
    pub(super) fn next_tick(&self) -> Option<Instant> {
        self.next_tick
    }

    /// Schedules the connections that nobody has received from, if it is time; returns the channels
    /// whose credits have waited for a tick.
    pub(super) fn tick(
        &mut self,
        now: Instant,
        connections: &HashMap<usize, Arc<Mutex<Connection>>>,
        scheduled: &mut VecDeque<usize>,
    ) -> Vec<Arc<RemoteInputChannel>> {
        if self.next_tick.is_none_or(|tick| now < tick) {
            return Vec::new();
        }
        self.ticking.retain(|token| {
            let Some(connection) = connections.get(token) else {
                return false;
            };
            // The holder receives or sends right now; the next tick checks again.
            let Some(mut connection) = connection.try_lock() else {
                return true;
            };
            let step = connection.lookout.on(Event::Tick);
            if step == Step::ReadNow {
                schedule(scheduled, &mut connection);
            }
            step == Step::GoOnTicking
        });
        let waited = self
            .gathering
            .extract_if(.., |channel| !channel.gathers_on());
        let waited = waited.collect();
        let goes_on = !self.ticking.is_empty() || !self.gathering.is_empty();
        self.next_tick = goes_on.then(|| now + TICK);
        waited
    }

    /// Chooses after a turn how the I/O thread is notified of the next arrival.
    pub(super) fn after_turn(
        &mut self,
        shared: &Arc<Mutex<Connection>>,
        connection: &mut Connection,
        registry: &Registry,
    ) -> Result<()> {
        let readable = connection.lookout.is_readable();
        if !readable && matches!(connection.phase, Phase::Open) {
            if connection.lookout.polls() {
                self.take_over(shared, connection, registry)
                    .map_err(|error| Error::io("leaving a connection to its readers", &error))?;
            }
            let wanted = match &mut connection.side {
                Side::Server(readers) if connection.lookout.depends_on_wants() => {
                    let moved = readers.take_moved();
                    moved || readers.wait() || connection.outbound.misses_buffers()
                }
                _ => true,
            };
            match connection.lookout.on(Event::ReadToEnd { wanted }) {
                Step::EnterSet => connection.enter_set()?,
                Step::StartTicking => self.start_ticking(connection),
                _ => {}
            }
        }
        connection.attend_writers(shared)
    }

    /// Leaves the arrivals of an open connection to the sets instead of the poll.
    fn take_over(
        &self,
        shared: &Arc<Mutex<Connection>>,
        connection: &mut Connection,
        registry: &Registry,
    ) -> io::Result<()> {
        let token = Token(connection.token);
        connection.socket.leave_reading(registry, token)?;
        connection.lookout.report_by(&self.set);
        if let Side::Client(channels) = &connection.side {
            for waiting in channels.iter().filter_map(|channel| channel.waiting()) {
                if !waiting.attends(connection.token) {
                    waiting.attend(shared, connection)?;
                }
            }
        }
        Ok(())
    }
}
