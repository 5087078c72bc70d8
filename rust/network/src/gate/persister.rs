//! In-flight data of a channel that belongs to an unaligned checkpoint: after the snapshot of the
//! task and before the checkpoint's barrier (internals M57).
//!
//! A barrier overtakes data, so some data may be in front of the barrier's place when persisting
//! starts; until a barrier arrives, arriving data belongs to the checkpoint as well.
//!
//! Buffers are counted here, not stored: data of the checkpoint stays in the channel until its
//! reader takes it and copies it, outside of the channel's lock.  So nothing is held longer, and no
//! more of it, than without a checkpoint.

use std::ops::Range;

use penstock_memory::{Buffer, DataType};

use crate::error::{Error, Result};
use crate::event;

#[derive(Debug, Default)]
pub(super) struct ChannelStatePersister {
    /// The last checkpoint whose barrier has arrived.
    seen: Option<i64>,
    /// Data buffers in the channel that arrived before that barrier.
    before_barrier: usize,
    /// The checkpoint that is persisted until its barrier arrives.
    expected: Option<i64>,
    /// Data buffers at the front of the channel that were copied for the checkpoint.
    copied: usize,
    /// Following data buffers that belong to the checkpoint as well.
    waiting: usize,
}

impl ChannelStatePersister {
    /// Starts a checkpoint while the channel has `queued` data buffers.
    ///
    /// # Errors
    /// `IllegalState` if a later checkpoint's barrier has arrived.
    pub(super) fn start(&mut self, checkpoint: i64, queued: usize) -> Result<()> {
        let in_flight = match self.seen {
            Some(seen) if seen > checkpoint => {
                return Err(Error::IllegalState(format!(
                    "checkpoint {checkpoint} is subsumed by {seen}"
                )));
            }
            Some(seen) if seen == checkpoint => self.before_barrier,
            _ => usize::MAX,
        };
        self.expected = (in_flight == usize::MAX).then_some(checkpoint);
        self.copied = 0;
        self.waiting = queued.min(in_flight);
        Ok(())
    }

    /// Ends a checkpoint and all before it; returns whether it was the present one.
    pub(super) fn stop(&mut self, checkpoint: i64) -> bool {
        let ends = self.expected.is_none_or(|expected| expected <= checkpoint);
        if ends {
            self.expected = None;
            self.copied = 0;
            self.waiting = 0;
        }
        ends
    }

    /// Returns the range of the channel's data buffers to copy now, and whether no more will
    /// follow.
    pub(super) fn take(&mut self) -> (Range<usize>, bool) {
        let start = self.copied;
        self.copied += std::mem::take(&mut self.waiting);
        (start..self.copied, self.expected.is_none())
    }

    /// Returns whether arriving data is persisted.
    pub(super) fn is_persisting(&self) -> bool {
        self.expected.is_some()
    }

    /// Notes an arrival while the channel has `queued` data buffers.
    pub(super) fn on_arrival(&mut self, buffer: &Buffer, queued: impl FnOnce() -> usize) {
        if buffer.data_type().is_buffer() {
            self.waiting += usize::from(self.expected.is_some());
        } else if buffer.data_type() == DataType::EndOfPartition {
            self.expected = None;
        } else if let Some(checkpoint) = event::barrier_id(buffer) {
            self.seen = Some(checkpoint);
            self.before_barrier = queued();
            if self.expected.is_some_and(|expected| expected <= checkpoint) {
                self.expected = None;
            }
        }
    }

    /// Notes that a buffer leaves the channel; returns whether the reader must copy it.
    pub(super) fn on_taken(&mut self, buffer: &Buffer) -> bool {
        if !buffer.data_type().is_buffer() {
            return false;
        }
        self.before_barrier = self.before_barrier.saturating_sub(1);
        if self.copied > 0 {
            self.copied -= 1;
            return false;
        }
        let belongs = self.waiting > 0;
        self.waiting -= usize::from(belongs);
        belongs
    }
}
