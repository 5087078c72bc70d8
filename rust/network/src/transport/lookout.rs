//! Decides which thread reads arriving data, and how the I/O thread is notified.
//!
//! There is one machine for each connection, changed only under the connection's lock.  It has no
//! effects itself: the reporter of an event carries out the returned [`Step`].  The I/O thread's
//! part is in `backstop`, that of waiting threads in `waiting`, that of senders in
//! `Connection::fill`.
//!
//! [`State::on`] is the table of transitions; `docs/waiting.md` describes it in words, with the
//! rules.  A socket is in the set of the I/O thread exactly while the state is [`State::Set`].

use super::socket_set::SocketSet;
use crate::sync::Arc;

/// The way in which the I/O thread learns of data to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// By its poll: the connection is not open yet, or was not read to its end since.
    Poll,
    /// By its set, which contains the socket.
    Set,
    /// By checking at every tick.
    Ticks,
    /// The I/O thread is about to read data that no thread has read.
    Turn,
}

/// Event of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// A turn of the I/O thread has read an open connection to its end.
    ReadToEnd {
        /// True if the I/O thread must be notified of the next arrival at once: at the consuming
        /// end always; at the producing end if the data read allowed something to be sent, or if a
        /// thread waits for more.
        wanted: bool,
    },
    /// The set of the I/O thread has reported an arrival.
    Arrived {
        /// True if readers handle it: at the consuming end, while there are channels.
        for_readers: bool,
    },
    /// A waiting thread has received a part, or comes for credit as a writer.
    LeftToOthers,
    /// A tick has passed.
    Tick,
    /// The channel of an arrival is released.
    ChannelLeft,
    /// A sender lacks credit, or a buffer that it has lent, and found nothing.
    OutOfCredit,
}

/// Action after an event.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing.
    Nothing,
    /// Put the socket into the set of the I/O thread, last in line.
    EnterSet,
    /// Take the socket out of that set, and check the connection at the next tick.
    StartTicking,
    /// Check it again at the next tick.
    GoOnTicking,
    /// Schedule a turn of the I/O thread that reads to the end.
    ReadNow,
    /// Schedule a turn that reads the data reported by the poll.
    Turn,
}

/// Facts that decide a state's answer to an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    /// True if a thread has read since the state was entered, or since the last check.
    read: bool,
    /// True if writers receive arrivals.
    for_writers: bool,
}

impl State {
    /// Returns the table of transitions.
    fn on(self, event: Event, known: Known) -> (Self, Step) {
        use Event::{Arrived, ChannelLeft, LeftToOthers, OutOfCredit, ReadToEnd, Tick};
        match (self, event) {
            (Self::Poll | Self::Turn, ReadToEnd { .. }) => (Self::Set, Step::EnterSet),
            (Self::Set, ReadToEnd { wanted: false }) if known.read => {
                (Self::Ticks, Step::StartTicking)
            }
            (Self::Set, Arrived { for_readers: true } | LeftToOthers) => {
                (Self::Ticks, Step::StartTicking)
            }
            (Self::Ticks, Tick) if known.read => (Self::Ticks, Step::GoOnTicking),
            (Self::Ticks, Tick) => (Self::Turn, Step::ReadNow),
            (Self::Ticks, OutOfCredit) if !known.for_writers => (Self::Set, Step::EnterSet),
            (Self::Ticks, ChannelLeft) => (Self::Turn, Step::ReadNow),
            (Self::Poll, ChannelLeft) => (self, Step::Turn),
            (_, ChannelLeft | Arrived { for_readers: false }) => (self, Step::ReadNow),
            _ => (self, Step::Nothing),
        }
    }
}

/// The machine of one connection.
#[derive(Debug)]
pub(super) struct Lookout {
    state: State,
    known: Known,
    /// The I/O thread's set, once the poll leaves reading to the sets.
    set: Option<Arc<SocketSet>>,
    /// True if a waiting thread has read more frames than it handles at once.
    unhandled: bool,
    /// True if a turn of the I/O thread has something to read.
    readable: bool,
    /// True if that turn reads until nothing is left: the peer may have closed its side, which is
    /// not reported again.
    to_the_end: bool,
}

impl Lookout {
    /// Creates the machine of a new or accepted connection.
    pub(super) fn new() -> Self {
        Self {
            state: State::Poll,
            known: Known {
                read: false,
                for_writers: false,
            },
            set: None,
            unhandled: false,
            readable: false,
            to_the_end: false,
        }
    }

    /// Reports an event; the caller carries out the step.
    pub(super) fn on(&mut self, event: Event) -> Step {
        let (state, step) = self.state.on(event, self.known);
        if (self.state, state) == (State::Ticks, State::Turn) {
            // They have had their tick.
            self.known.for_writers = false;
        }
        if state != self.state
            || step == Step::GoOnTicking
            || matches!(event, Event::ReadToEnd { .. })
        {
            self.known.read = false;
        }
        self.state = state;
        if step == Step::ReadNow {
            (self.readable, self.to_the_end) = (true, true);
        }
        step
    }

    /// Sets the set that reports arrivals once the connection is open.
    pub(super) fn report_by(&mut self, set: &Arc<SocketSet>) {
        self.set = Some(Arc::clone(set));
    }

    /// Returns the I/O thread's set, if the socket may be put there.
    pub(super) fn set(&self) -> Option<&Arc<SocketSet>> {
        self.set.as_ref()
    }

    /// Returns the I/O thread's set, while it contains the socket.
    pub(super) fn set_with_socket(&self) -> Option<&Arc<SocketSet>> {
        self.set.as_ref().filter(|_| self.state == State::Set)
    }

    /// Returns whether only the poll reports arrivals.
    pub(super) fn polls(&self) -> bool {
        self.state == State::Poll
    }

    /// Returns whether the I/O thread leaves arrivals to others, until the next tick.
    pub(super) fn ticks(&self) -> bool {
        self.state == State::Ticks
    }

    /// Returns whether the notification of the I/O thread of the next arrival depends on waiting
    /// threads.
    pub(super) fn depends_on_wants(&self) -> bool {
        self.state == State::Set && self.known.read
    }

    /// Returns whether the I/O thread must learn that others receive arrivals (`Command::Watch`),
    /// after a waiting thread has received, perhaps only a part.
    pub(super) fn is_left_to_others(&self, part: bool) -> bool {
        self.state == State::Set && (part || self.known.for_writers)
    }

    /// Notes that a writer has come for arrivals, and will return.
    pub(super) fn leave_to_writers(&mut self) {
        self.known.for_writers = true;
    }

    /// Returns whether a turn has something to read.
    pub(super) fn is_readable(&self) -> bool {
        self.readable
    }

    /// Notes that the poll reported data, or that the peer has closed its side.
    pub(super) fn on_polled(&mut self, readable: bool, closed: bool) {
        self.to_the_end |= closed;
        self.readable |= readable || closed;
    }

    /// Resets the reports for a new socket, or for none.
    pub(super) fn on_new_socket(&mut self) {
        (self.readable, self.to_the_end) = (false, false);
    }

    /// Notes that any thread has read.
    pub(super) fn on_read(&mut self) {
        self.known.read = true;
    }

    /// Notes one read of a turn: less than the room available has emptied the socket.
    pub(super) fn on_turn_read(&mut self, filled: bool) {
        self.readable = filled || self.to_the_end;
    }

    /// Notes that a turn has found nothing more.
    pub(super) fn on_emptied(&mut self) {
        self.readable = false;
    }

    /// Returns whether data was read and not handled.
    pub(super) fn has_unhandled(&self) -> bool {
        self.unhandled
    }

    /// Returns and resets whether data was read and must be handled now.
    pub(super) fn take_unhandled(&mut self) -> bool {
        std::mem::take(&mut self.unhandled)
    }

    /// Sets whether the reading thread has left unhandled data.
    pub(super) fn leave_unhandled(&mut self, some: bool) {
        self.unhandled = some;
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    const STATES: [State; 4] = [State::Poll, State::Set, State::Ticks, State::Turn];
    const EVENTS: [Event; 8] = [
        Event::ReadToEnd { wanted: true },
        Event::ReadToEnd { wanted: false },
        Event::Arrived { for_readers: true },
        Event::Arrived { for_readers: false },
        Event::LeftToOthers,
        Event::Tick,
        Event::ChannelLeft,
        Event::OutOfCredit,
    ];

    fn all() -> impl Iterator<Item = (State, Event, Known)> {
        let flags = [false, true];
        let known = flags
            .into_iter()
            .flat_map(move |read| flags.map(|for_writers| Known { read, for_writers }));
        known.flat_map(|known| {
            STATES
                .into_iter()
                .flat_map(move |state| EVENTS.map(|event| (state, event, known)))
        })
    }

    #[test]
    fn the_socket_is_in_the_set_in_one_state() {
        for (state, event, known) in all() {
            let (next, step) = state.on(event, known);
            let (enters, leaves) = (step == Step::EnterSet, step == Step::StartTicking);
            assert_eq!(
                enters,
                state != State::Set && next == State::Set,
                "{state:?} {event:?} {known:?}"
            );
            assert_eq!(
                leaves,
                state == State::Set && next != State::Set,
                "{state:?} {event:?} {known:?}"
            );
        }
    }

    #[test]
    fn whoever_is_looked_at_every_tick_came_from_the_set() {
        for (state, event, known) in all() {
            let (next, step) = state.on(event, known);
            let ticks_on = step == Step::StartTicking || step == Step::GoOnTicking;
            if next == State::Ticks && event == Event::Tick {
                assert_eq!(step, Step::GoOnTicking);
            }
            assert!(!ticks_on || next == State::Ticks);
            assert!(state != State::Poll || next != State::Ticks);
        }
    }

    /// W-5, W-6: the I/O thread reads arrivals that no other thread has read within a tick.
    #[test]
    fn a_tick_without_reading_is_a_turn() {
        let mut lookout = Lookout::new();
        assert_eq!(
            lookout.on(Event::ReadToEnd { wanted: true }),
            Step::EnterSet
        );
        lookout.leave_to_writers();
        assert_eq!(lookout.on(Event::LeftToOthers), Step::StartTicking);
        assert_eq!(lookout.on(Event::OutOfCredit), Step::Nothing);
        lookout.on_read();
        assert_eq!(lookout.on(Event::Tick), Step::GoOnTicking);
        assert_eq!(lookout.on(Event::Tick), Step::ReadNow);
        assert!(lookout.is_readable());
        lookout.on_turn_read(false);
        assert!(lookout.is_readable(), "until there is nothing more");
        lookout.on_emptied();
        assert!(!lookout.is_readable());
        assert_eq!(
            lookout.on(Event::ReadToEnd { wanted: true }),
            Step::EnterSet
        );
        // The writers have had their tick: the next sender looks for credit by itself.
        assert_eq!(lookout.on(Event::LeftToOthers), Step::StartTicking);
        assert_eq!(lookout.on(Event::OutOfCredit), Step::EnterSet);
    }
}
