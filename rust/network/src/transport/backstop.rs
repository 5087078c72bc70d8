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
//! (`Lookout::leave_to_writers`).
//!
//! What of this is when is said by the machine of each connection (`lookout`); here is what the
//! I/O thread does as it says: its set, its clock, its turns.  The rules W-5, W-6 and W-7 are in
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
    /// Connections that are looked at every tick.
    ticking: Vec<usize>,
    /// Channels whose credits gather while their producers have none.
    gathering: Vec<Arc<RemoteInputChannel>>,
    next_tick: Option<Instant>,
    ready: Vec<usize>,
}

impl Backstop {
    /// Creates a set without sockets, whose arrivals the poll reports with `token`.
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

    #[cfg(all(test, loom))]
    pub(super) fn set(&self) -> &Arc<SocketSet> {
        &self.set
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

    /// Leaves what comes to others, and has an eye on them.
    pub(super) fn watch(&mut self, connection: &mut Connection) {
        if connection.lookout.on(Event::LeftToOthers) == Step::StartTicking {
            self.start_ticking(connection);
        }
    }

    /// Looks after credits that gather: their reader may stop before they are announced.
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

    /// Has what comes for a channel that is gone taken at once: its reader will not come.
    pub(super) fn on_left(connection: &mut Connection, scheduled: &mut VecDeque<usize>) {
        if matches!(
            connection.lookout.on(Event::ChannelLeft),
            Step::ReadNow | Step::Turn
        ) {
            schedule(scheduled, connection);
        }
    }

    /// When to call `tick`.
    pub(super) fn next_tick(&self) -> Option<Instant> {
        self.next_tick
    }

    /// Gives a turn to the connections that nobody has received from, if it is time to look;
    /// returns the channels whose credits have waited for a tick.
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
            // Whoever has it receives right now, or sends; the next tick will tell.
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

    /// After a turn: settles how to hear of the next arrival.
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

    /// Tells the poll to leave the arrivals of an open connection to the sets.
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
