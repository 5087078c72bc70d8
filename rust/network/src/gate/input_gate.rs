//! One handle for both kinds of gate.

use std::time::{Duration, Instant};

use penstock_memory::Buffer;

use super::received::Received;
use super::single::SingleInputGate;
use super::union::UnionInputGate;
use crate::error::Result;
use crate::sync::Arc;

/// A buffer or an event of one channel, as it arrived.
#[derive(Debug)]
pub struct BufferOrEvent {
    /// The channel it came from.
    pub channel: usize,
    /// Bytes and data type.
    pub buffer: Buffer,
    /// True if another buffer can be taken without waiting.
    pub more_available: bool,
}

/// Next item of a gate.
#[derive(Debug)]
pub enum Next {
    /// A buffer or an event.
    Buffer(BufferOrEvent),
    /// Nothing: the timeout passed.
    Nothing,
    /// Nothing: somebody called `wakeup`.
    Woken,
    /// All channels have ended.
    End,
}

/// Time that a call may wait.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wait {
    /// Not at all; a pending wake-up stays pending.
    Never,
    /// Until the given moment.
    Until(Instant),
    /// Without a limit.
    Forever,
}

impl Wait {
    /// Returns the time left to wait, given whether it `waited` before; `None` once it is over.  A
    /// call that may not wait looks once at the arrived data.
    pub(super) fn left(self, waited: &mut bool) -> Option<Option<Duration>> {
        let first = !std::mem::replace(waited, true);
        match self {
            Self::Never => None,
            Self::Forever => Some(None),
            Self::Until(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                (first || !left.is_zero()).then_some(Some(left))
            }
        }
    }

    /// Converts a timeout of the interface: `None` waits without a limit.
    pub(crate) fn after(timeout: Option<Duration>) -> Self {
        match timeout.and_then(|timeout| Instant::now().checked_add(timeout)) {
            Some(deadline) => Self::Until(deadline),
            None => Self::Forever,
        }
    }
}

/// The input of a task: one gate or the union of several.
#[derive(Debug, Clone)]
pub enum InputGate {
    /// A gate with channels of its own.
    Single(Arc<SingleInputGate>),
    /// A union.
    Union(Arc<UnionInputGate>),
}

impl InputGate {
    /// Returns the number of channels.
    #[must_use]
    pub fn num_channels(&self) -> usize {
        match self {
            Self::Single(gate) => gate.num_channels(),
            Self::Union(gate) => gate.num_channels(),
        }
    }

    /// Requests the subpartitions from the producers; idempotent.
    ///
    /// # Errors
    /// `CancelTask` if the gate is closed.
    pub fn request_partitions(&self) -> Result<()> {
        match self {
            Self::Single(gate) => gate.request_partitions(),
            Self::Union(gate) => gate.request_partitions(),
        }
    }

    /// Takes the next buffer or event, waiting up to `timeout` (`None`: no limit).
    ///
    /// # Errors
    /// `CancelTask` if the gate is closed; a channel's error otherwise.
    pub fn next_buffer(&self, timeout: Option<Duration>) -> Result<Next> {
        self.poll(Wait::after(timeout))
    }

    /// Takes the next buffer or event if there is one; never waits and leaves a pending wake-up for
    /// the next call that would wait.
    ///
    /// # Errors
    /// See `next_buffer`.
    pub fn try_next_buffer(&self) -> Result<Next> {
        self.poll(Wait::Never)
    }

    pub(crate) fn poll(&self, wait: Wait) -> Result<Next> {
        match self {
            Self::Single(gate) => gate.poll(wait),
            Self::Union(gate) => gate.poll(wait),
        }
    }

    /// Wakes a waiting `next_buffer`; if none waits, the next one that would wait returns at once.
    pub fn wakeup(&self) {
        match self {
            Self::Single(gate) => gate.wakeup(),
            Self::Union(gate) => gate.wakeup(),
        }
    }

    /// Resumes a channel after an event that blocked it.
    ///
    /// # Errors
    /// `IllegalState` if there is no such channel, it has ended or it is not known to be blocked;
    /// `CancelTask` if the gate was closed.
    pub fn resume_consumption(&self, channel: usize) -> Result<()> {
        match self {
            Self::Single(gate) => gate.resume_consumption(channel),
            Self::Union(gate) => gate.resume_consumption(channel),
        }
    }

    /// Resumes several channels after events that blocked them.
    ///
    /// # Errors
    /// See `resume_consumption`, for the first channel that fails; later ones remain blocked.
    pub fn resume_all(&self, channels: &[usize]) -> Result<()> {
        match self {
            Self::Single(gate) => gate.resume_all(channels),
            Self::Union(gate) => gate.resume_all(channels),
        }
    }

    /// Does not wake the reader until `left` barriers that equal `event`, or are alike if it is
    /// empty, or anything else, have arrived; 0 ends this.
    ///
    /// Returns the arrival of the first of these, if the reader was not woken.
    pub(super) fn expect_barriers(&self, event: &[u8], left: usize) -> Option<Instant> {
        match self {
            Self::Single(gate) => gate.expect_barriers(event, left),
            // No single gate knows which of them has the last barrier.
            Self::Union(_) => None,
        }
    }

    /// Sends a serialized task event to the producers of all channels that have not ended.
    ///
    /// # Errors
    /// `CorruptStream` if it is not a task event, `IllegalState` if it is too long or the
    /// partitions were not requested, `CancelTask` if the gate is closed.  A producer that rejects
    /// it fails its channel.
    pub fn send_task_event(&self, event: &[u8]) -> Result<()> {
        match self {
            Self::Single(gate) => gate.send_task_event(event),
            Self::Union(gate) => gate.send_task_event(event),
        }
    }

    /// Takes the next event that overtakes data, if there is one; never waits.
    ///
    /// # Errors
    /// See `next_buffer`.
    pub fn next_urgent(&self) -> Result<Option<BufferOrEvent>> {
        match self {
            Self::Single(gate) => gate.poll_urgent(),
            Self::Union(gate) => gate.poll_urgent(),
        }
    }

    /// Returns the address of a byte, valid as long as the gate, that is nonzero while
    /// `next_urgent` may have an event: for a reader between two records.  Other threads write it.
    #[cfg(not(feature = "loom"))]
    #[must_use]
    pub fn urgent_ptr(&self) -> *const u8 {
        match self {
            Self::Single(gate) => gate.urgent_ptr(),
            Self::Union(gate) => gate.urgent_ptr(),
        }
    }

    /// Queues recovered in-flight data of a channel, in order, before all data that it will
    /// receive; an `EndOfChannelState` follows it.  At most once for each channel, before the
    /// partitions are requested.
    ///
    /// # Errors
    /// `IllegalState` without such a channel or afterwards, `CancelTask` if the gate is closed.
    pub fn recover(&self, channel: usize, buffers: &[Vec<u8>]) -> Result<()> {
        match self {
            Self::Single(gate) => gate.recover(channel, buffers),
            Self::Union(gate) => gate.recover(channel, buffers),
        }
    }

    /// Starts copying the data of an unaligned checkpoint: the data in each channel before the
    /// checkpoint's barrier, and the data that arrives until the barrier does.
    ///
    /// # Errors
    /// `IllegalState` if a later checkpoint's barrier has arrived; `stop_persisting` then ends the
    /// persisting that has begun.
    pub fn start_persisting(&self, checkpoint: i64) -> Result<()> {
        match self {
            Self::Single(gate) => gate.start_persisting(checkpoint),
            Self::Union(gate) => gate.start_persisting(checkpoint),
        }
    }

    /// Stops persisting for a checkpoint and earlier ones, and drops copies that were not taken.
    pub fn stop_persisting(&self, checkpoint: i64) {
        match self {
            Self::Single(gate) => gate.stop_persisting(checkpoint),
            Self::Union(gate) => gate.stop_persisting(checkpoint),
        }
    }

    /// Returns the copied data buffers of a channel since the last call, in order, and whether they
    /// are complete.
    ///
    /// # Errors
    /// `IllegalState` without such a channel.
    pub fn take_persisted(&self, channel: usize) -> Result<(Vec<Vec<u8>>, bool)> {
        match self {
            Self::Single(gate) => gate.take_persisted(channel),
            Self::Union(gate) => gate.take_persisted(channel),
        }
    }

    /// Lets the announced barrier of a checkpoint overtake the data before it in its channel, whose
    /// producer stays blocked; false if it is absent: not announced, or already read.
    ///
    /// # Errors
    /// `IllegalState` without such a channel.
    pub fn prioritize_barrier(&self, channel: usize, checkpoint: i64) -> Result<bool> {
        match self {
            Self::Single(gate) => gate.prioritize_barrier(channel, checkpoint),
            Self::Union(gate) => gate.prioritize_barrier(channel, checkpoint),
        }
    }

    /// Measures the throughput since the last call and announces buffer sizes to the producers, so
    /// that in-flight data is processed in the target time; returns the last sizes in bytes and the
    /// processing times in milliseconds, for each debloated gate.
    ///
    /// `share` is the part of the target time that these gates may take, up to 1.
    pub fn debloat(&self, share: f64) -> Vec<(u32, u64)> {
        match self {
            Self::Single(gate) => gate.debloat(share).into_iter().collect(),
            Self::Union(gate) => gate.debloat(share),
        }
    }

    /// Returns the numbers of buffers to read, of those of them in the gate's own memory, and of
    /// buffers that this memory can have now.
    #[must_use]
    pub fn buffer_usage(&self) -> (usize, usize, usize) {
        match self {
            Self::Single(gate) => gate.buffer_usage(),
            Self::Union(gate) => gate.buffer_usage(),
        }
    }

    /// Returns the number of bytes and buffers read so far.
    #[must_use]
    pub fn received(&self) -> Received {
        match self {
            Self::Single(gate) => gate.received(),
            Self::Union(gate) => gate.received(),
        }
    }

    /// Returns whether every channel has delivered `EndOfPartition`.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        match self {
            Self::Single(gate) => gate.is_finished(),
            Self::Union(gate) => gate.is_finished(),
        }
    }

    /// Releases all channels and their buffers; waiting threads wake with `CancelTask`.
    pub fn close(&self) {
        match self {
            Self::Single(gate) => gate.close(),
            Self::Union(gate) => gate.close(),
        }
    }
}
