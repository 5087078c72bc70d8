//! A channel whose producer is behind a connection, and its credits (internals M19).
//!
//! Buffers are dropped only after the channel's lock is released: dropping an exclusive one calls
//! this channel.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::OnceLock;

use penstock_memory::{
    Buffer, BufferListener, BufferRecycler, DataType, LocalBufferPool, PooledSegment, UniqueBuffer,
};

use super::credits::{Credits, Due, Occasion};
use super::input_channel::Polled;
use super::persister::ChannelStatePersister;
use super::single::SingleInputGate;
use crate::error::{Error, Result};
use crate::event;
use crate::sync::{Arc, AtomicBool, AtomicUsize, Mutex, Ordering, Weak};
use crate::transport::{Command, Link, Transport, Waiting};
use crate::wire::{PartitionId, PartitionRequest, ReceiverId};

/// Value of `connection` before the I/O thread has assigned one.
pub(crate) const NO_CONNECTION: usize = usize::MAX;

struct State {
    queue: VecDeque<Buffer>,
    persister: ChannelStatePersister,
    /// Number of entries with priority at the front of `queue`.
    priority: usize,
    credits: Credits,
    expected_sequence_number: i32,
    /// `EndOfPartition` has arrived: errors of the connection no longer matter.
    ended: bool,
    released: bool,
}

impl State {
    /// Decides about credits after a buffer was returned.
    fn on_return(&mut self) -> Occasion {
        self.credits.on_return(self.queue.len())
    }

    fn queued_data(&self) -> usize {
        count_data(&self.queue)
    }

    fn push_priority(&mut self, buffer: Buffer) {
        self.queue.insert(self.priority, buffer);
        self.priority += 1;
    }
}

fn count_data(queue: &VecDeque<Buffer>) -> usize {
    let data = queue.iter().filter(|buffer| buffer.data_type().is_buffer());
    data.count()
}

/// A remote input channel.
pub(crate) struct RemoteInputChannel {
    gate: Weak<SingleInputGate>,
    /// Index in its gate.
    index: usize,
    pub(crate) id: ReceiverId,
    pub(crate) address: SocketAddr,
    pub(crate) partition_id: PartitionId,
    pub(crate) subpartition: usize,
    pub(crate) initial_credit: i32,
    floating_pool: Arc<LocalBufferPool>,
    transport: Arc<Transport>,
    state: Mutex<State>,
    /// Copied buffers of a checkpoint; only the reader uses them.
    kept: Mutex<Vec<Vec<u8>>>,
    requested: AtomicBool,
    /// Token of the connection; only the I/O thread writes it.
    pub(crate) connection: AtomicUsize,
    /// The connection itself, once there is one.
    link: OnceLock<Link>,
    this: Weak<Self>,
}

impl std::fmt::Debug for RemoteInputChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteInputChannel")
            .field("index", &self.index)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// Configuration of a remote channel.
pub(crate) struct RemoteChannelConfig {
    pub(crate) index: usize,
    pub(crate) id: ReceiverId,
    pub(crate) address: SocketAddr,
    pub(crate) partition_id: PartitionId,
    pub(crate) subpartition: usize,
    pub(crate) exclusive: Vec<PooledSegment>,
    pub(crate) floating_pool: Arc<LocalBufferPool>,
    pub(crate) transport: Arc<Transport>,
}

impl RemoteInputChannel {
    pub(crate) fn new(gate: Weak<SingleInputGate>, config: RemoteChannelConfig) -> Arc<Self> {
        let initial_credit = config.exclusive.len() as i32;
        Arc::new_cyclic(|this| Self {
            gate,
            index: config.index,
            id: config.id,
            address: config.address,
            partition_id: config.partition_id,
            subpartition: config.subpartition,
            initial_credit,
            floating_pool: config.floating_pool,
            transport: config.transport,
            state: Mutex::new(State {
                queue: VecDeque::new(),
                persister: ChannelStatePersister::default(),
                priority: 0,
                credits: Credits::new(config.exclusive),
                expected_sequence_number: 0,
                ended: false,
                released: false,
            }),
            kept: Mutex::default(),
            requested: AtomicBool::new(false),
            connection: AtomicUsize::new(NO_CONNECTION),
            link: OnceLock::new(),
            this: Weak::clone(this),
        })
    }

    /// Requests the subpartition from the producer.
    pub(crate) fn request(&self) {
        if let Some(this) = self.this.upgrade()
            && !self.requested.swap(true, Ordering::AcqRel)
        {
            self.transport.post(Command::RequestPartition(this));
        }
    }

    /// Returns the request for the subpartition.
    pub(crate) fn partition_request(&self) -> PartitionRequest {
        PartitionRequest {
            partition: Box::new(self.partition_id),
            index_start: self.subpartition as i32,
            index_end: self.subpartition as i32,
            receiver: self.id,
            initial_credit: self.initial_credit,
        }
    }

    pub(crate) fn poll(&self) -> Result<Option<Polled>> {
        let mut state = self.state.lock();
        if state.released {
            return Ok(None);
        }
        let Some(buffer) = state.queue.pop_front() else {
            return Ok(None);
        };
        state.priority = state.priority.saturating_sub(1);
        let belongs = state.persister.on_taken(&buffer);
        let queued = state.queue.len();
        let occasion = state.credits.on_read(queued);
        drop(state);
        self.announce(occasion);
        if belongs {
            self.kept.lock().push(buffer.to_vec());
        }
        Ok(Some(Polled {
            buffer,
            more: queued > 0,
        }))
    }

    /// Returns the waiting place of the gate's reader; `None` when the gate is gone.
    pub(crate) fn waiting(&self) -> Option<Arc<Waiting>> {
        self.gate.upgrade().map(|gate| gate.waiting())
    }

    /// Notes that the channel's gate has another reader.
    pub(crate) fn change_reader(&self) {
        if self.requested.load(Ordering::Acquire)
            && let Some(this) = self.this.upgrade()
        {
            self.transport.post(Command::Attend(this));
        }
    }

    /// Starts copying the data of an unaligned checkpoint.
    ///
    /// # Errors
    /// `IllegalState` if a later checkpoint's barrier has arrived.
    pub(crate) fn start_persisting(&self, checkpoint: i64) -> Result<()> {
        let mut state = self.state.lock();
        let queued = state.queued_data();
        state.persister.start(checkpoint, queued)?;
        drop(state);
        self.kept.lock().clear();
        Ok(())
    }

    /// Stops copying for a checkpoint and earlier ones.
    pub(crate) fn stop_persisting(&self, checkpoint: i64) {
        if self.state.lock().persister.stop(checkpoint) {
            self.kept.lock().clear();
        }
    }

    /// Returns the buffers copied since the last call, and whether they are complete.
    pub(crate) fn take_persisted(&self) -> (Vec<Vec<u8>>, bool) {
        let mut state = self.state.lock();
        let (range, complete) = state.persister.take();
        let data = state
            .queue
            .iter()
            .filter(|buffer| buffer.data_type().is_buffer());
        let waiting: Vec<Buffer> = data.skip(range.start).take(range.len()).cloned().collect();
        drop(state);
        let mut kept = std::mem::take(&mut *self.kept.lock());
        kept.extend(waiting.iter().map(|buffer| buffer.to_vec()));
        (kept, complete)
    }

    /// Returns whether an event that overtakes data comes next.
    pub(crate) fn has_priority(&self) -> bool {
        self.state.lock().priority > 0
    }

    /// Lets the announced barrier of a checkpoint overtake the data before it; returns false if it
    /// is absent.
    pub(crate) fn prioritize_barrier(&self, checkpoint: i64) -> bool {
        let mut state = self.state.lock();
        let is_barrier = |buffer: &Buffer| {
            buffer.data_type().requires_announcement()
                && event::barrier_id(buffer) == Some(checkpoint)
        };
        let at = state.queue.iter().position(is_barrier);
        let Some(mut barrier) = at.and_then(|at| state.queue.remove(at)) else {
            return false;
        };
        barrier.set_data_type(DataType::PrioritizedEventBuffer);
        state.push_priority(barrier);
        drop(state);
        if let Some(gate) = self.gate.upgrade() {
            gate.notify(self.index, true);
        }
        true
    }

    /// Returns the number of arrived buffers, and of those that the producer has announced beyond
    /// the exclusive ones.
    pub(crate) fn buffers_in_use(&self) -> usize {
        let state = self.state.lock();
        let announced = state
            .credits
            .required
            .saturating_sub(self.initial_credit as usize);
        state.queue.len() + announced
    }

    /// Returns the number of arrived buffers.
    pub(crate) fn queued(&self) -> usize {
        self.state.lock().queue.len()
    }

    /// Returns the number of exclusive buffers.
    pub(crate) fn exclusive(&self) -> usize {
        self.initial_credit as usize
    }

    /// Announces the size of its next buffers to the producer.
    pub(crate) fn announce_buffer_size(&self, bytes: u32) {
        if !self.is_released()
            && let Some(this) = self.this.upgrade()
        {
            self.transport
                .post(Command::AnnounceBufferSize(this, bytes));
        }
    }

    pub(crate) fn send_task_event(&self, event: Vec<u8>) {
        if let Some(this) = self.this.upgrade() {
            self.transport.post(Command::SendTaskEvent(this, event));
        }
    }

    /// Sets the connection of the channel.
    pub(crate) fn link(&self, link: Link) {
        // A channel sends one request, so there is none yet.
        self.link.get_or_init(|| link);
    }

    /// Takes all credits to announce; called by the holder of the connection.
    pub(crate) fn take_credits(&self) -> i32 {
        let mut state = self.state.lock();
        state.credits.announcing = false;
        if state.released {
            return 0;
        }
        state.credits.take()
    }

    pub(crate) fn is_released(&self) -> bool {
        self.state.lock().released
    }

    /// Returns a buffer for arriving payload; `None` if the channel is released.
    ///
    /// # Errors
    /// `CorruptStream` if the producer exceeds its credit.
    pub(crate) fn take_buffer(&self) -> Result<Option<UniqueBuffer>> {
        let mut state = self.state.lock();
        if state.released {
            return Ok(None);
        }
        let credits = &mut state.credits;
        credits.required = credits.required.saturating_sub(1);
        if let Some(buffer) = credits.floating.pop() {
            return Ok(Some(buffer));
        }
        let (Some(segment), Some(this)) = (credits.exclusive.pop(), self.this.upgrade()) else {
            return Err(Error::CorruptStream(format!(
                "no buffer for data from {}: the producer has exceeded its credit",
                self.address
            )));
        };
        drop(state);
        Ok(Some(segment.into_buffer(this)))
    }

    /// Takes a whole buffer or event; an empty one only carries number and backlog.
    ///
    /// Returns the credits to announce on this occasion, and the gate if it is to be announced.
    pub(crate) fn on_buffer(
        &self,
        buffer: Option<Buffer>,
        sequence_number: i32,
        backlog: i32,
    ) -> (Due, Option<Arc<SingleInputGate>>) {
        let mut state = self.state.lock();
        if state.released {
            return (Due::No, None);
        }
        let expected = state.expected_sequence_number;
        if sequence_number != expected {
            drop(state);
            // Returns to its pool before anybody receives the error.
            drop(buffer);
            self.on_error(Error::CorruptStream(format!(
                "Buffer re-ordering: expected buffer with sequence number {expected}, but received \
                 {sequence_number} from {}",
                self.address
            )));
            return (Due::No, None);
        }
        state.expected_sequence_number = expected.wrapping_add(1);
        let mut notify = None;
        let mut barrier = None;
        let mut blocks = false;
        if let Some(buffer) = buffer {
            let data_type = buffer.data_type();
            let was_empty = state.queue.is_empty();
            let mut priority = data_type.has_priority();
            blocks = data_type.is_blocking_upstream();
            state.credits.outstanding -= i32::from(data_type.is_buffer());
            state.ended |= data_type == DataType::EndOfPartition;
            let State {
                persister, queue, ..
            } = &mut *state;
            persister.on_arrival(&buffer, || count_data(queue));
            if data_type.requires_announcement() {
                let announcement = Buffer::from_bytes(
                    event::announcement(sequence_number, &buffer),
                    DataType::PrioritizedEventBuffer,
                );
                state.push_priority(announcement);
                priority = true;
                state.queue.push_back(buffer);
            } else if priority {
                state.push_priority(buffer);
            } else {
                state.queue.push_back(buffer);
            }
            if priority || was_empty {
                notify = Some(priority);
            }
            if was_empty && data_type == DataType::AlignedCheckpointBarrier {
                barrier = state.queue.front().cloned();
            }
        } else {
            // The credit was spent and its buffer is still here.
            state.credits.outstanding -= 1;
            state.credits.unannounced += 1;
        }
        if let Ok(backlog) = usize::try_from(backlog) {
            self.require(&mut state.credits, backlog);
        }
        let forfeited = if blocks && self.initial_credit == 0 {
            state.credits.forfeit()
        } else {
            Vec::new()
        };
        let due = state.credits.on_arrival(backlog > 0);
        drop(state);
        drop(forfeited);
        let waiting = notify.and_then(|priority| {
            let gate = self.gate.upgrade()?;
            if priority {
                gate.notify(self.index, true);
                return None;
            }
            let is_news = match &barrier {
                Some(barrier) => gate.enqueue_barrier(self.index, barrier.as_slice()),
                None => gate.enqueue(self.index, false),
            };
            is_news.then_some(gate)
        });
        (due, waiting)
    }

    /// Notes the producer's backlog; returns the credits to announce on this occasion.
    pub(crate) fn on_backlog(&self, backlog: usize) -> Due {
        let mut state = self.state.lock();
        if state.released {
            return Due::No;
        }
        self.require(&mut state.credits, backlog);
        state.credits.on_arrival(backlog > 0)
    }

    /// Obtains buffers for the producer's backlog, as far as available.
    fn require(&self, credits: &mut Credits, backlog: usize) {
        credits.required = backlog + self.initial_credit as usize;
        credits.unannounced += self.request_floating(credits);
    }

    /// Takes floating buffers until the requirement is met, or waits for one.
    fn request_floating(&self, credits: &mut Credits) -> i32 {
        let mut obtained = 0;
        while credits.available() < credits.required && !credits.waiting {
            match self.floating_pool.request_buffer() {
                Ok(Some(buffer)) => {
                    credits.floating.push(buffer);
                    obtained += 1;
                }
                Ok(None) => {
                    let Some(this) = self.this.upgrade() else {
                        break;
                    };
                    // False if a buffer was returned meanwhile, or the pool is destroyed.
                    credits.waiting = self.floating_pool.add_buffer_listener(this);
                }
                // The gate is being closed.
                Err(_) => break,
            }
        }
        obtained
    }

    /// Announces the gathered credits if it is time, or lets the I/O thread do so.
    fn announce(&self, occasion: Occasion) {
        if occasion == Occasion::None {
            return;
        }
        let Some(this) = self.this.upgrade() else {
            return;
        };
        let left = match (occasion, self.link.get()) {
            (Occasion::Later, _) => Some(Command::WatchCredit(this)),
            (_, Some(link)) => link.announce(this),
            (_, None) => Some(Command::AnnounceCredit(this)),
        };
        if let Some(command) = left {
            self.transport.post(command);
        }
    }

    /// Returns whether credits keep gathering; otherwise it is time to announce them.
    pub(crate) fn gathers_on(&self) -> bool {
        self.state.lock().credits.on_tick()
    }

    /// Fails the channel's gate, unless the producer had already ended.
    pub(crate) fn on_error(&self, error: Error) {
        let state = self.state.lock();
        let matters = !state.released && !state.ended;
        drop(state);
        if matters && let Some(gate) = self.gate.upgrade() {
            gate.on_error(error);
        }
    }

    /// Releases the channel: returns its buffers and notifies the producer.
    pub(crate) fn release(&self) {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.released, true) {
            return;
        }
        let queue = std::mem::take(&mut state.queue);
        let buffers = state.credits.release();
        drop(state);
        drop((queue, buffers));
        if self.requested.load(Ordering::Acquire)
            && let Some(this) = self.this.upgrade()
        {
            self.transport.post(Command::Cancel(this));
        }
    }
}

impl BufferRecycler for RemoteInputChannel {
    fn recycle(&self, segment: PooledSegment) {
        let mut state = self.state.lock();
        if state.released {
            drop(state);
            drop(segment);
            return;
        }
        let credits = &mut state.credits;
        credits.exclusive.push(segment);
        if credits.available() > credits.required.max(self.initial_credit as usize)
            && let Some(surplus) = credits.floating.pop()
        {
            drop(state);
            drop(surplus);
            return;
        }
        credits.unannounced += 1;
        let occasion = state.on_return();
        drop(state);
        self.announce(occasion);
    }
}

impl BufferListener for RemoteInputChannel {
    fn on_buffer_available(&self, buffer: UniqueBuffer) -> std::result::Result<(), UniqueBuffer> {
        let mut state = self.state.lock();
        let released = state.released;
        let credits = &mut state.credits;
        credits.waiting = false;
        if released || credits.available() >= credits.required {
            return Err(buffer);
        }
        credits.floating.push(buffer);
        credits.unannounced += 1 + self.request_floating(credits);
        let occasion = state.on_return();
        drop(state);
        self.announce(occasion);
        Ok(())
    }

    fn on_pool_destroyed(&self) {
        self.state.lock().credits.waiting = false;
    }
}

#[cfg(test)]
#[path = "remote_channel_tests.rs"]
mod tests;
