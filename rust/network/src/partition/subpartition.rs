//! One pipelined queue of buffers between a writer and its single reader (internals M16).
//!
//! The writer adds consumers of buffers that it may still be filling; the reader builds slices of
//! the published bytes.  Invariants:
//!
//! 1. only the last element may be unfinished;
//! 2. the backlog counts the data buffers in the queue, so that a receiver can prepare;
//! 3. the reader is notified once when it has something to do, then not again until it has been
//!    told that there is nothing, save for flushes, priority elements and the end;
//! 4. after a buffer whose type blocks, nothing leaves before `resume_consumption`.
//!
//! The listener is called after the lock is released.

use std::collections::VecDeque;
#[cfg(not(feature = "loom"))]
use std::time::Instant;

use penstock_memory::{Buffer, BufferConsumer, DataType};

use super::reader_pace::ReaderPace;
use super::wakeups::Wakeups;
use crate::error::{Error, Result};
use crate::event::{END_OF_PARTITION_BYTES, barrier_id};
use crate::sync::{Arc, Mutex};

/// Listener for data of a subpartition.
pub(crate) trait AvailabilityListener: Send + Sync {
    /// Reports that data can be polled, or that the subpartition failed or was released.
    fn notify_data_available(&self);
    /// Reports that an element that overtakes data can be polled.
    fn notify_priority_event(&self);
    /// Reports that only an aligned barrier can be polled.
    fn notify_barrier(&self, _event: &[u8]) {
        self.notify_data_available();
    }
    /// Reports one of the above as a part of a batch: listeners that can be notified of several at
    /// once are left to `wakeups`.
    fn notify_later(&self, priority: bool, _wakeups: &mut Wakeups) {
        if priority {
            self.notify_priority_event();
        } else {
            self.notify_data_available();
        }
    }
    /// Reports an aligned barrier as a part of a batch.
    fn notify_barrier_later(&self, _event: &[u8], wakeups: &mut Wakeups) {
        self.notify_later(false, wakeups);
    }
}

/// A polled buffer with the information about the queue that the reader needs.
#[derive(Debug)]
pub(crate) struct BufferAndBacklog {
    pub(crate) buffer: Buffer,
    /// Number of data buffers that could be read after this one.
    pub(crate) backlog: i32,
    /// Type of the next element, `None` if nothing can be polled now.
    pub(crate) next_type: DataType,
    pub(crate) sequence_number: i32,
    /// New limit of buffers written ahead of the reader, if it has changed.
    pub(crate) quota: Option<usize>,
}

/// The reason of an early end of a subpartition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Released {
    /// Its producer failed, with the given reason.
    Failed(String),
    /// The subpartition was released.
    Released,
}

impl Released {
    /// Returns the error for a reader that connects too late.
    pub(super) fn to_late_reader(&self) -> Error {
        match self {
            Self::Failed(cause) => Error::ProducerFailed(cause.clone()),
            Self::Released => Error::PartitionNotFound("the subpartition was released".into()),
        }
    }
}

struct State {
    buffers: VecDeque<BufferConsumer>,
    /// Number of leading elements with priority.
    priority: usize,
    /// Data buffers in `buffers`.
    backlog: usize,
    flush_requested: bool,
    finished: bool,
    released: Option<Released>,
    blocked: bool,
    /// The listener of the reader; set while a view exists.
    listener: Option<Arc<dyn AvailabilityListener>>,
    /// A pipelined subpartition can only be read once.
    view_created: bool,
    sequence_number: i32,
    /// Wanted size of new buffers, in bytes.
    desired_buffer_size: usize,
    pace: ReaderPace,
    total_buffers: u64,
    total_bytes: u64,
}

/// The call to the listener that ends an operation.
enum Notify {
    Nobody,
    Data(Option<Arc<dyn AvailabilityListener>>),
    Priority(Option<Arc<dyn AvailabilityListener>>),
    /// The only element is this aligned barrier.
    Barrier(Option<Arc<dyn AvailabilityListener>>, Buffer),
}

impl Notify {
    fn deliver(self) {
        match self {
            Self::Data(Some(listener)) => listener.notify_data_available(),
            Self::Priority(Some(listener)) => listener.notify_priority_event(),
            Self::Barrier(Some(listener), barrier) => listener.notify_barrier(barrier.as_slice()),
            _ => {}
        }
    }

    fn deliver_later(self, wakeups: &mut Wakeups) {
        match self {
            Self::Data(Some(listener)) => listener.notify_later(false, wakeups),
            Self::Priority(Some(listener)) => listener.notify_later(true, wakeups),
            Self::Barrier(Some(listener), barrier) => {
                listener.notify_barrier_later(barrier.as_slice(), wakeups);
            }
            _ => {}
        }
    }
}

/// A pipelined subpartition.
pub(crate) struct PipelinedSubpartition {
    state: Mutex<State>,
}

impl std::fmt::Debug for PipelinedSubpartition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state.lock();
        f.debug_struct("PipelinedSubpartition")
            .field("buffers", &state.buffers.len())
            .field("backlog", &state.backlog)
            .field("finished", &state.finished)
            .field("released", &state.released)
            .finish_non_exhaustive()
    }
}

impl PipelinedSubpartition {
    pub(crate) fn new(buffer_size: usize) -> Self {
        Self {
            state: Mutex::new(State {
                buffers: VecDeque::new(),
                priority: 0,
                backlog: 0,
                flush_requested: false,
                finished: false,
                released: None,
                blocked: false,
                listener: None,
                view_created: false,
                sequence_number: 0,
                desired_buffer_size: buffer_size,
                pace: ReaderPace::new(),
                total_buffers: 0,
                total_bytes: 0,
            }),
        }
    }

    /// Appends a buffer and returns the wanted size of the next one, or `None` if the subpartition
    /// is finished or released and the buffer was dropped.
    pub(crate) fn add(&self, consumer: BufferConsumer) -> Option<usize> {
        let (desired, notify) = self.add_element(consumer, false)?;
        notify.deliver();
        Some(desired)
    }

    /// Like `add`, as one of many.
    pub(crate) fn add_later(
        &self,
        consumer: BufferConsumer,
        wakeups: &mut Wakeups,
    ) -> Option<usize> {
        let (desired, notify) = self.add_element(consumer, false)?;
        notify.deliver_later(wakeups);
        Some(desired)
    }

    /// Appends `EndOfPartition`; nothing can be added afterwards.
    pub(crate) fn finish(&self, wakeups: &mut Wakeups) {
        let event = Buffer::from_bytes(END_OF_PARTITION_BYTES, DataType::EndOfPartition);
        if let Some((_, notify)) = self.add_element(BufferConsumer::finished(event), true) {
            notify.deliver_later(wakeups);
        }
    }

    fn add_element(&self, consumer: BufferConsumer, finish: bool) -> Option<(usize, Notify)> {
        let mut state = self.state.lock();
        if state.finished || state.released.is_some() {
            drop(state);
            return None;
        }
        Some(state.add(consumer, finish))
    }

    /// Lets an element with priority overtake the queue; returns the overtaken data.
    pub(crate) fn overtake(&self, consumer: BufferConsumer, wakeups: &mut Wakeups) -> Vec<Buffer> {
        debug_assert!(consumer.data_type().has_priority());
        let mut state = self.state.lock();
        if state.finished || state.released.is_some() {
            drop(state);
            return Vec::new();
        }
        let overtaken = unread_data(state.buffers.iter());
        let (_, notify) = state.add(consumer, false);
        drop(state);
        notify.deliver_later(wakeups);
        overtaken
    }

    /// Replaces the timeoutable barrier of a checkpoint by `consumer`, which has priority, and
    /// returns the data overtaken by this; does nothing if the barrier has left.
    pub(crate) fn time_out_barrier(
        &self,
        checkpoint: i64,
        consumer: BufferConsumer,
        wakeups: &mut Wakeups,
    ) -> Vec<Buffer> {
        debug_assert!(consumer.data_type().has_priority());
        let mut state = self.state.lock();
        let Some(at) = state.barrier(checkpoint) else {
            return Vec::new();
        };
        let overtaken = unread_data(state.buffers.iter().take(at));
        let barrier = state.buffers.remove(at);
        // It was counted when it was added.
        state.total_buffers -= 1;
        let (_, notify) = state.add(consumer, false);
        drop(state);
        drop(barrier);
        notify.deliver_later(wakeups);
        overtaken
    }

    /// Returns whether the timeoutable barrier of a checkpoint waits for its reader.
    pub(crate) fn holds_barrier(&self, checkpoint: i64) -> bool {
        self.state.lock().barrier(checkpoint).is_some()
    }

    /// Returns whether an element with priority comes next.
    pub(crate) fn has_priority(&self) -> bool {
        let state = self.state.lock();
        state.priority > 0 && !state.blocked
    }

    /// Takes the next slice, or `None`.
    ///
    /// # Errors
    /// `IllegalState` if two elements are unfinished at once.
    pub(crate) fn poll(&self) -> Result<Option<BufferAndBacklog>> {
        let mut state = self.state.lock();
        if state.blocked {
            return Ok(None);
        }
        if state.buffers.is_empty() {
            state.flush_requested = false;
        }
        loop {
            let count = state.buffers.len();
            let Some(head) = state.buffers.front_mut() else {
                return Ok(None);
            };
            let buffer = head.build();
            let finished = head.is_finished();
            if !finished && count > 1 {
                return Err(Error::IllegalState(
                    "an unfinished buffer stands before others in the queue".into(),
                ));
            }
            let mut emptied = None;
            if count == 1 {
                state.flush_requested = false;
            }
            if finished {
                emptied = state.buffers.pop_front();
                state.priority = state.priority.saturating_sub(1);
                if buffer.data_type().is_buffer() {
                    state.backlog -= 1;
                    state.on_taken();
                }
            }
            if buffer.size() > 0 {
                state.blocked = buffer.data_type().is_blocking_upstream();
                state.total_bytes += buffer.size() as u64;
                let sequence_number = state.sequence_number;
                state.sequence_number = sequence_number.wrapping_add(1);
                let next_type = state.next_type();
                let backlog = state.announced_backlog();
                let quota = state.pace.take_change();
                drop(state);
                drop(emptied);
                return Ok(Some(BufferAndBacklog {
                    buffer,
                    backlog,
                    next_type,
                    sequence_number,
                    quota,
                }));
            }
            if !finished {
                return Ok(None);
            }
        }
    }

    /// Makes the content of an unfinished buffer visible to the reader.
    pub(crate) fn flush(&self) {
        self.request_flush().deliver();
    }

    /// Like `flush`, as one of many.
    pub(crate) fn flush_later(&self, wakeups: &mut Wakeups) {
        self.request_flush().deliver_later(wakeups);
    }

    fn request_flush(&self) -> Notify {
        let mut state = self.state.lock();
        if state.buffers.is_empty() || state.flush_requested {
            return Notify::Nobody;
        }
        let lone = state.buffers.len() == 1;
        let unread = lone
            && state
                .buffers
                .front()
                .is_some_and(BufferConsumer::is_data_available);
        let notify = if !state.blocked && unread {
            Notify::Data(state.listener.clone())
        } else {
            Notify::Nobody
        };
        state.flush_requested = !lone || unread;
        notify
    }

    /// Ends the queue early: all buffers are recycled and the reader receives the reason.
    pub(crate) fn release(&self, why: Released) {
        let mut state = self.state.lock();
        if state.released.is_some() {
            return;
        }
        state.released = Some(why);
        state.priority = 0;
        state.backlog = 0;
        let buffers = std::mem::take(&mut state.buffers);
        let listener = state.listener.take();
        drop(state);
        drop(buffers);
        Notify::Data(listener).deliver();
    }

    /// Connects the one reader.
    ///
    /// # Errors
    /// `IllegalState` for a second reader, `ProducerFailed` or `PartitionNotFound` if there is
    /// nothing left to read.
    pub(crate) fn create_view(&self, listener: Arc<dyn AvailabilityListener>) -> Result<()> {
        let mut state = self.state.lock();
        if let Some(released) = &state.released {
            return Err(released.to_late_reader());
        }
        if state.view_created {
            return Err(Error::IllegalState(
                "a pipelined subpartition can be consumed only once".into(),
            ));
        }
        state.view_created = true;
        state.listener = Some(Arc::clone(&listener));
        let notify = !state.buffers.is_empty();
        drop(state);
        if notify {
            listener.notify_data_available();
        }
        Ok(())
    }

    /// Resumes the queue after a buffer that blocked.
    ///
    /// # Errors
    /// `IllegalState` if nothing blocks.
    pub(crate) fn resume_consumption(&self) -> Result<()> {
        let mut state = self.state.lock();
        if !state.blocked {
            return Err(Error::IllegalState(
                "the subpartition is not blocked".into(),
            ));
        }
        state.blocked = false;
        state.pace.restart();
        Ok(())
    }

    /// Returns whether the reader could poll something, given whether it has credit for data.
    pub(crate) fn is_available(&self, has_credit: bool) -> bool {
        let state = self.state.lock();
        if has_credit {
            state.is_available()
        } else {
            !state.blocked && state.buffers.front().is_some_and(|head| !head.is_buffer())
        }
    }

    /// Returns the reason of an early end of the queue, if any.
    pub(crate) fn released(&self) -> Option<Released> {
        self.state.lock().released.clone()
    }

    /// Returns the number of data buffers that a reader could take, as announced to it.
    pub(crate) fn backlog(&self) -> i32 {
        self.state.lock().announced_backlog()
    }

    /// Returns the number of queued elements, including events.
    pub(crate) fn queued(&self) -> usize {
        self.state.lock().buffers.len()
    }

    /// Returns the number of buffers added and bytes polled since the start.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.total_buffers, state.total_bytes)
    }

    /// Sets the wanted size of the next buffers.
    pub(crate) fn set_desired_buffer_size(&self, bytes: usize) {
        self.state.lock().desired_buffer_size = bytes;
    }
}

/// Returns the unread bytes of the data buffers among `waiting`.
fn unread_data<'a>(waiting: impl Iterator<Item = &'a BufferConsumer>) -> Vec<Buffer> {
    waiting
        .filter(|waiting| waiting.is_buffer())
        .map(|waiting| waiting.copy().build())
        .filter(|buffer| buffer.size() > 0)
        .collect()
}

impl State {
    /// Returns the position of a checkpoint's timeoutable barrier.
    fn barrier(&self, checkpoint: i64) -> Option<usize> {
        self.buffers.iter().position(|waiting| {
            waiting.data_type().requires_announcement()
                && barrier_id(&waiting.copy().build()) == Some(checkpoint)
        })
    }

    /// Inserts an element in order; returns the wanted size of the next one, and the notification.
    fn add(&mut self, consumer: BufferConsumer, finish: bool) -> (usize, Notify) {
        self.total_buffers += 1;
        let has_priority = consumer.data_type().has_priority();
        if has_priority {
            let at = self.priority;
            self.buffers.insert(at, consumer);
            self.priority += 1;
        } else {
            self.backlog += usize::from(consumer.is_buffer());
            self.buffers.push_back(consumer);
        }
        let notify = if finish {
            self.finished = true;
            Notify::Data(self.listener.clone())
        } else if has_priority {
            if self.priority == 1 && !self.blocked {
                Notify::Priority(self.listener.clone())
            } else {
                Notify::Nobody
            }
        } else if !self.flush_requested && !self.blocked && self.finished_buffers() == 1 {
            self.news_of_first()
        } else {
            Notify::Nobody
        };
        (self.desired_buffer_size, notify)
    }

    /// Returns the notification for a reader that has not been notified yet.
    fn news_of_first(&self) -> Notify {
        let listener = self.listener.clone();
        match self.buffers.front() {
            Some(first)
                if self.buffers.len() == 1
                    && first.data_type() == DataType::AlignedCheckpointBarrier =>
            {
                Notify::Barrier(listener, first.copy().build())
            }
            _ => Notify::Data(listener),
        }
    }

    /// Returns the number of elements known to be finished: the last one may still be written.
    fn finished_buffers(&self) -> usize {
        match self.buffers.len() {
            0 => 0,
            1 => usize::from(self.buffers[0].is_finished()),
            count => count - 1,
        }
    }

    fn is_available(&self) -> bool {
        !self.blocked && (self.flush_requested || self.finished_buffers() > 0)
    }

    fn next_type(&self) -> DataType {
        match self.buffers.front() {
            Some(head) if self.is_available() => head.data_type(),
            _ => DataType::None,
        }
    }

    /// Notes that a full data buffer was taken.
    #[cfg(not(feature = "loom"))]
    fn on_taken(&mut self) {
        self.pace.on_taken(Instant::now());
    }

    /// Does nothing: models have no clock.
    #[cfg(feature = "loom")]
    fn on_taken(&mut self) {}

    /// Returns the number of data buffers to announce to the reader.
    fn announced_backlog(&self) -> i32 {
        let backlog = self.readable_backlog();
        // A remote reader would prepare buffers, which would then be filled ahead of it.
        let told = if self.pace.is_slow() {
            backlog.min(1)
        } else {
            backlog
        };
        told as i32
    }

    fn readable_backlog(&self) -> usize {
        let Some(last) = self.buffers.back() else {
            return 0;
        };
        if self.blocked {
            0
        } else if self.flush_requested || self.finished || !last.is_buffer() {
            self.backlog
        } else {
            self.backlog.saturating_sub(1)
        }
    }
}

#[cfg(test)]
#[path = "subpartition_tests.rs"]
mod tests;
