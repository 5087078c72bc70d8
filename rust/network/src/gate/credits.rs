//! Capacity of a remote channel, and the credit that its producer knows of (internals M19).
//!
//! The channel owns `initial_credit` exclusive segments permanently and borrows floating buffers of
//! its gate while the producer's backlog requires them.  Every buffer that it obtains is a credit
//! for the producer, so arriving data always finds a buffer:
//!
//! `initial credit + announced + unannounced credit − data buffers received`
//! `= buffers available here`, never negative.

use penstock_memory::{PooledSegment, UniqueBuffer};

/// When to announce credits to the producer after an arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// On a later occasion, if there are any.
    No,
    /// When the reader is idle: the producer is not waiting.
    WhenIdle,
    /// Immediately, with the number of credits.
    Now(i32),
}

/// Action after a buffer was returned.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Occasion {
    /// Nothing.
    None,
    /// Announce the gathered credits.
    Now,
    /// Let the I/O thread announce them, unless the reader does so before the next tick.
    Later,
}

/// The buffers and credits of one channel, under its lock.
pub(super) struct Credits {
    pub(super) exclusive: Vec<PooledSegment>,
    pub(super) floating: Vec<UniqueBuffer>,
    /// Number of buffers that the producer's backlog requires.
    pub(super) required: usize,
    /// True if the channel waits in the floating pool's queue.
    pub(super) waiting: bool,
    /// Credits that the producer holds: initial and announced ones, minus received data buffers.
    pub(super) outstanding: i32,
    /// Credits that are not yet announced to the producer.
    pub(super) unannounced: i32,
    /// True if the I/O thread was asked to announce credits and has not yet done so.
    pub(super) announcing: bool,
    /// True if the I/O thread watches gathering credits.
    watched: bool,
    /// True if credits were announced since its last look.
    announced: bool,
}

impl Credits {
    /// Creates the initial credit: the exclusive segments, whose number the request contains.
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

    /// Returns the number of buffers for arriving data.
    pub(super) fn available(&self) -> usize {
        self.exclusive.len() + self.floating.len()
    }

    /// Decides about credits after a buffer was returned.
    ///
    /// While buffers wait to be read, `queued` of them, credit gathers until it amounts to half of
    /// the channel's buffers: each message is a system call and may wake the writer.  A producer
    /// without credit receives the rest a tick later at most, should the reader stop.
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

    /// Decides about credits after a buffer was taken for reading, with `queued` behind it.
    ///
    /// The channel is not notified of returned floating buffers, so reading one is an occasion as
    /// well, if the producer has no credit.
    pub(super) fn on_read(&mut self, queued: usize) -> Occasion {
        if self.outstanding > 0 {
            return Occasion::None;
        }
        self.on_return(queued)
    }

    /// Returns whether to look at gathering credits again a tick later, since some were announced
    /// in this one; otherwise they have waited long enough.
    pub(super) fn on_tick(&mut self) -> bool {
        self.watched = std::mem::take(&mut self.announced);
        self.watched
    }

    /// Decides when to announce gathered credits after an arrival.
    ///
    /// Not while the producer holds more than has gathered; and while it holds some and has nothing
    /// to send, the arrived record goes first.
    pub(super) fn on_arrival(&mut self, producer_has_more: bool) -> Due {
        if self.unannounced == 0 || self.outstanding > self.unannounced {
            Due::No
        } else if self.outstanding > 0 && !producer_has_more {
            Due::WhenIdle
        } else {
            Due::Now(self.take())
        }
    }

    /// Takes all credits to announce.
    pub(super) fn take(&mut self) -> i32 {
        let credits = std::mem::take(&mut self.unannounced);
        self.outstanding += credits;
        self.announced |= credits > 0;
        credits
    }

    /// Releases the floating buffers and their credit, to be dropped after the channel's lock is
    /// released: the producer is blocked, and forgets its credit when it is resumed.  For channels
    /// without exclusive buffers.
    pub(super) fn forfeit(&mut self) -> Vec<UniqueBuffer> {
        self.required = 0;
        self.outstanding = 0;
        self.unannounced = 0;
        std::mem::take(&mut self.floating)
    }

    /// Releases the buffers, to be dropped after the channel's lock is released.
    pub(super) fn release(&mut self) -> (Vec<PooledSegment>, Vec<UniqueBuffer>) {
        (
            std::mem::take(&mut self.exclusive),
            std::mem::take(&mut self.floating),
        )
    }
}
