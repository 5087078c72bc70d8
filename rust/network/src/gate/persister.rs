//! What of a channel belongs to an unaligned checkpoint: the data between the state of the task
//! and the checkpoint's barrier (SEMANTICS F6).
//!
//! A barrier overtakes data, so some of it may lie in front of the barrier's place when persisting
//! starts; without a barrier yet, what arrives until it comes belongs to the checkpoint too.

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
    persisted: Vec<Vec<u8>>,
}

impl ChannelStatePersister {
    /// Begins with a checkpoint; `queued` is what lies in the channel.
    ///
    /// # Errors
    /// `IllegalState` when a later checkpoint's barrier has arrived.
    pub(super) fn start<'a>(
        &mut self,
        checkpoint: i64,
        queued: impl Iterator<Item = &'a Buffer>,
    ) -> Result<()> {
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
        self.persisted = queued
            .filter(|buffer| buffer.data_type().is_buffer())
            .take(in_flight)
            .map(|buffer| buffer.to_vec())
            .collect();
        Ok(())
    }

    /// Ends with a checkpoint and all before it; what was persisted and not taken is dropped.
    pub(super) fn stop(&mut self, checkpoint: i64) {
        if self.expected.is_none_or(|expected| expected <= checkpoint) {
            self.expected = None;
            self.persisted = Vec::new();
        }
    }

    /// What was persisted since the last call, and whether that was all.
    pub(super) fn take(&mut self) -> (Vec<Vec<u8>>, bool) {
        (std::mem::take(&mut self.persisted), self.expected.is_none())
    }

    /// Whether data that arrives is persisted.
    pub(super) fn is_persisting(&self) -> bool {
        self.expected.is_some()
    }

    /// Something arrives while `queued` lies in the channel.
    pub(super) fn on_arrival<'a>(
        &mut self,
        buffer: &Buffer,
        queued: impl Iterator<Item = &'a Buffer>,
    ) {
        if buffer.data_type().is_buffer() {
            if self.expected.is_some() {
                self.persisted.push(buffer.to_vec());
            }
        } else if buffer.data_type() == DataType::EndOfPartition {
            self.expected = None;
        } else if let Some(checkpoint) = event::barrier_id(buffer) {
            self.seen = Some(checkpoint);
            self.before_barrier = queued
                .filter(|buffer| buffer.data_type().is_buffer())
                .count();
            if self.expected.is_some_and(|expected| expected <= checkpoint) {
                self.expected = None;
            }
        }
    }

    /// Something leaves the channel for its reader.
    pub(super) fn on_taken(&mut self, buffer: &Buffer) {
        if buffer.data_type().is_buffer() {
            self.before_barrier = self.before_barrier.saturating_sub(1);
        }
    }
}
