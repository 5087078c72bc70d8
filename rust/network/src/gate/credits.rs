//! Capacity of a remote channel, and its producer's knowledge of it (internals M19).
//!
//! The channel owns `initial_credit` exclusive segments for life and borrows floating buffers of
//! its gate while the producer's backlog asks for them.  Every buffer it obtains is a credit for
//! the producer, so what arrives always has a place:
//!
//! `initial credit + announced + unannounced credit − data buffers received`
//! `= buffers available here`, never negative.

use penstock_memory::{PooledSegment, UniqueBuffer};

/// When to tell the producer of credits, now that something has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// On a later occasion, if there are any at all.
    No,
    /// Once the reader has nothing better to do: the producer waits for nothing.
    WhenIdle,
    /// Of so many at once.
    Now(i32),
}

/// Action that a returned buffer triggers.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Occasion {
    /// Nothing.
    None,
    /// To announce the credits that have gathered.
    Now,
    /// To have the I/O thread announce them, if the reader has not by the next tick.
    Later,
}

/// The buffers and credits of one channel, under its lock.
pub(super) struct Credits {
    pub(super) exclusive: Vec<PooledSegment>,
    pub(super) floating: Vec<UniqueBuffer>,
    /// Buffers that the producer's backlog asks for.
    pub(super) required: usize,
    /// True if the channel waits in the floating pool's queue.
    pub(super) waiting: bool,
    /// Credits the producer holds: initial and announced ones, less the data buffers received.
    pub(super) outstanding: i32,
    /// Credits the producer has not been told of.
    pub(super) unannounced: i32,
    /// True if the I/O thread was asked to announce credits and has not done so.
    pub(super) announcing: bool,
    /// True if the I/O thread looks after credits that gather.
    watched: bool,
    /// True if credits were announced since it last did.
    announced: bool,
}

impl Credits {
    /// The initial credit: the exclusive segments, of which the request tells.
    pub(super) fn new(exclusive: Vec<PooledSegment>) -> Self {
        Self {
            outstanding: exclusive.len() as i32,
            exclusive,
            floating: Vec::new(),
            required: 0,
            waiting: false,
            unannounced: 0,
            announcing: false,
            watched: false,
            announced: false,
        }
    }

    /// Buffers for what is to come.
    pub(super) fn available(&self) -> usize {
        self.exclusive.len() + self.floating.len()
    }

    /// Decides about credits after a buffer was returned.
    ///
    /// While buffers wait to be read, `queued` of them, credit gathers until it stands for half of
    /// the channel's buffers: each message is a system call and may wake the writer.  A producer
    /// that has none gets the rest a tick later at the most, should the reader stop.
    pub(super) fn on_return(&mut self, queued: usize) -> Occasion {
        if self.announcing || self.unannounced == 0 {
            return Occasion::None;
        }
        let outstanding = usize::try_from(self.outstanding).unwrap_or(0);
        let is_less_than_half = (self.unannounced as usize) < outstanding + queued;
        if queued == 0 || !is_less_than_half {
            self.announcing = true;
            Occasion::Now
        } else if outstanding > 0 || self.watched {
            Occasion::None
        } else {
            self.watched = true;
            Occasion::Later
        }
    }

    /// Decides about credits after a buffer was taken to be read, with `queued` behind it.
    ///
    /// Of floating buffers that come back the channel does not hear, so one that is read is an
    /// occasion, too, for a producer without credit.
    pub(super) fn on_read(&mut self, queued: usize) -> Occasion {
        if self.outstanding > 0 {
            return Occasion::None;
        }
        self.on_return(queued)
    }

    /// Returns whether credits that gather are to be looked at again a tick later, since some were
    /// announced in this one; else those there are have waited long enough.
    pub(super) fn on_tick(&mut self) -> bool {
        self.watched = std::mem::take(&mut self.announced);
        self.watched
    }

    /// When to announce the credits that have gathered, now that something has arrived.
    ///
    /// Not while the producer holds more than has gathered; and while it holds some and has
    /// nothing to send, the record that has come goes first.
    pub(super) fn on_arrival(&mut self, producer_has_more: bool) -> Due {
        if self.unannounced == 0 || self.outstanding > self.unannounced {
            Due::No
        } else if self.outstanding > 0 && !producer_has_more {
            Due::WhenIdle
        } else {
            Due::Now(self.take())
        }
    }

    /// The credits to announce, all of them.
    pub(super) fn take(&mut self) -> i32 {
        let credits = std::mem::take(&mut self.unannounced);
        self.outstanding += credits;
        self.announced |= credits > 0;
        credits
    }

    /// Gives up the floating buffers and the credit that they stood for, to be dropped once the
    /// channel's lock is released: the producer is blocked, and forgets what it was granted when it
    /// is resumed.  For channels without exclusive buffers.
    pub(super) fn forfeit(&mut self) -> Vec<UniqueBuffer> {
        self.required = 0;
        self.outstanding = 0;
        self.unannounced = 0;
        std::mem::take(&mut self.floating)
    }

    /// Gives up the buffers, to be dropped once the channel's lock is released.
    pub(super) fn release(&mut self) -> (Vec<PooledSegment>, Vec<UniqueBuffer>) {
        (
            std::mem::take(&mut self.exclusive),
            std::mem::take(&mut self.floating),
        )
    }
}
