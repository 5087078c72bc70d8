//! In-flight data of a channel that belongs to an unaligned checkpoint: between the state of the
//! task and the checkpoint's barrier (internals M57).
//!
//! A barrier overtakes data, so some of it may lie in front of the barrier's place when persisting
//! starts; without a barrier yet, what arrives until it comes belongs to the checkpoint too.
//!
//! Buffers are counted here, not kept: what belongs to the checkpoint stays in the channel until
//! its reader takes it, who then copies it, outside of the channel's lock.  So nothing is held
//! longer, and no more of it, than without a checkpoint.

use std::ops::Range;

use penstock_memory::{Buffer, DataType};

use crate::error::{Error, Result};
use crate::event;

#[derive(Debug, Default)]
pub(super) struct ChannelStatePersister {
    /// The last checkpoint whose barrier has arrived.
    seen: Option<i64>,
    /// Data buffers in the channel that came before that barrier.
    before_barrier: usize,
    /// The checkpoint that is persisted until its barrier arrives.
    expected: Option<i64>,
    /// Data buffers at the front of the channel that were copied for the checkpoint.
    copied: usize,
    /// Data buffers behind those that belong to the checkpoint too.
    waiting: usize,
}

impl ChannelStatePersister {
    /// Begins with a checkpoint while `queued` data buffers lie in the channel.
    ///
    /// # Errors
    /// `IllegalState` when a later checkpoint's barrier has arrived.
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

    /// Ends with a checkpoint and all before it; true when that was the present one.
    pub(super) fn stop(&mut self, checkpoint: i64) -> bool {
        let ends = self.expected.is_none_or(|expected| expected <= checkpoint);
        if ends {
            self.expected = None;
            self.copied = 0;
            self.waiting = 0;
        }
        ends
    }

    /// Which of the data buffers in the channel are to be copied now, and whether there is nothing
    /// to come.
    pub(super) fn take(&mut self) -> (Range<usize>, bool) {
        let start = self.copied;
        self.copied += std::mem::take(&mut self.waiting);
        (start..self.copied, self.expected.is_none())
    }

    /// Returns whether data that arrives is persisted.
    pub(super) fn is_persisting(&self) -> bool {
        self.expected.is_some()
    }

    /// Something arrives while `queued` data buffers lie in the channel.
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

    /// Something leaves the channel for its reader; true when the reader is to copy it.
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
