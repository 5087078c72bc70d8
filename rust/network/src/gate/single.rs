//! A gate over the channels of one input.
//!
//! The queue holds the channels with data, each at most once; a channel returns to its tail after
//! every buffer, so all channels deliver at the same rate (internals M23).
//!
//! The gate's lock is the only one held: channels are polled and released without it, and they
//! notify the gate without their own.

mod in_flight;
mod to_producers;

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::time::Instant;

use penstock_memory::{Buffer, DataType, LocalBufferPool};

use super::debloating::Debloating;
use super::input_channel::InputChannel;
use super::input_gate::{BufferOrEvent, Next, Wait};
use super::received::{Counts, Received};
use super::union::UnionInputGate;
use crate::environment::EnvironmentCore;
use crate::error::{Error, Result};
use crate::sync::{Arc, AtomicU8, Mutex, Ordering, Weak};
use crate::transport::{Transport, Waiting};

/// Barriers that do not wake the reader until all of them have arrived.
#[derive(Debug, Default)]
struct Expected {
    /// The barrier; empty while the next one decides.
    event: Vec<u8>,
    /// Arrival of the first one that did not wake the reader.
    first: Option<Instant>,
    /// Number of barriers still to arrive, as far as the reader has read; 0 if none are expected.
    left: usize,
    /// Number of queue entries that are such barriers and did not wake the reader.
    queued: usize,
}

#[derive(Debug)]
struct State {
    queue: VecDeque<u32>,
    expected: Expected,
    /// Number of entries with priority at the front of `queue`.
    priority: usize,
    queued: Vec<bool>,
    ended: Vec<bool>,
    /// Channels that have not ended.
    left: usize,
    woken: bool,
    closed: bool,
    requested: bool,
    error: Option<Error>,
    /// In-flight data of the task's initial checkpoint, with its end, channel by channel; read
    /// before the channels' own data, except for events that overtake data.
    recovered: VecDeque<(usize, Buffer)>,
    /// Recovered buffers that a pending checkpoint has not yet stored, by channel.
    kept: Vec<Vec<Buffer>>,
}

/// Next source to read.
enum Ready {
    /// A channel with data.
    Channel(usize),
    /// A recovered buffer of a channel.
    Recovered(usize, Buffer),
}

/// The gate of one input.
#[derive(Debug)]
pub struct SingleInputGate {
    state: Mutex<State>,
    waiting: Arc<Waiting>,
    channels: Vec<InputChannel>,
    floating: Arc<LocalBufferPool>,
    environment: Arc<EnvironmentCore>,
    /// Set if the producers' buffers are to be debloated.
    debloating: Option<Debloating>,
    counts: Counts,
    /// 1 while a channel with an event that overtakes data is queued.
    urgent: AtomicU8,
    parent: OnceLock<(Weak<UnionInputGate>, usize)>,
}

impl SingleInputGate {
    pub(crate) fn new(
        channels: Vec<InputChannel>,
        floating: Arc<LocalBufferPool>,
        environment: Arc<EnvironmentCore>,
        waiting: Waiting,
    ) -> Self {
        let count = channels.len();
        let debloating = environment.config().debloat.map(Debloating::new);
        Self {
            state: Mutex::new(State {
                queue: VecDeque::with_capacity(count),
                expected: Expected::default(),
                priority: 0,
                queued: vec![false; count],
                ended: vec![false; count],
                left: count,
                woken: false,
                closed: false,
                requested: false,
                error: None,
                recovered: VecDeque::new(),
                kept: vec![Vec::new(); count],
            }),
            waiting: Arc::new(waiting),
            channels,
            floating,
            environment,
            debloating,
            counts: Counts::default(),
            urgent: AtomicU8::new(0),
            parent: OnceLock::new(),
        }
    }

    pub(crate) fn num_channels(&self) -> usize {
        self.channels.len()
    }

    /// Returns whether a union reads this gate.
    pub(super) fn is_joined(&self) -> bool {
        self.parent.get().is_some()
    }

    /// Sets the union to notify; a gate belongs to at most one union.
    pub(crate) fn join(&self, union: Weak<UnionInputGate>, index: usize) -> Result<()> {
        self.parent
            .set((union, index))
            .map_err(|_| Error::IllegalState("the gate belongs to a union already".into()))?;
        for channel in &self.channels {
            if let InputChannel::Remote(channel) = channel {
                channel.change_reader();
            }
        }
        Ok(())
    }

    /// Returns the waiting place of this gate's reader.
    pub(crate) fn waiting(&self) -> Arc<Waiting> {
        let union = self.parent.get().and_then(|(union, _)| union.upgrade());
        union.map_or_else(|| Arc::clone(&self.waiting), |union| union.waiting())
    }

    /// Returns the transport of its channels, if some are remote.
    pub(crate) fn transport(&self) -> Option<&Arc<Transport>> {
        self.waiting.transport()
    }

    pub(crate) fn request_partitions(&self) -> Result<()> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(closed());
        }
        if std::mem::replace(&mut state.requested, true) {
            return Ok(());
        }
        drop(state);
        for channel in &self.channels {
            match channel {
                InputChannel::Local(channel) => channel.request(&self.environment),
                InputChannel::Remote(channel) => channel.request(),
            }
        }
        Ok(())
    }

    pub(crate) fn poll(&self, wait: Wait) -> Result<Next> {
        loop {
            let channel = match self.next_ready(wait)? {
                Ok(Ready::Channel(channel)) => channel,
                Ok(Ready::Recovered(channel, buffer)) => {
                    return Ok(Next::Buffer(BufferOrEvent {
                        channel,
                        buffer,
                        more_available: self.has_news(),
                    }));
                }
                Err(none) => {
                    self.on_empty();
                    return Ok(if self.is_finished() { Next::End } else { none });
                }
            };
            if let Some(next) = self.poll_channel(channel)? {
                return Ok(Next::Buffer(next));
            }
        }
    }

    /// Takes the next event that overtakes data, if there is one; never waits.
    pub(crate) fn poll_urgent(&self) -> Result<Option<BufferOrEvent>> {
        while self.is_urgent() {
            let mut state = self.state.lock();
            if state.closed {
                return Err(closed());
            }
            if let Some(error) = &state.error {
                return Err(error.clone());
            }
            if state.priority == 0 {
                return Ok(None);
            }
            let Some(channel) = self.pop_channel(&mut state) else {
                return Ok(None);
            };
            drop(state);
            if self.channels[channel].has_priority() {
                if let Some(next) = self.poll_channel(channel)? {
                    return Ok(Some(next));
                }
            } else {
                // It was read already, in the channel's ordinary turn, which is due again.
                self.notify(channel, false);
            }
        }
        Ok(None)
    }

    /// Returns whether a channel with an event that overtakes data is queued.
    pub(crate) fn is_urgent(&self) -> bool {
        self.urgent.load(Ordering::Acquire) != 0
    }

    /// Returns the address at which the C function table reads `is_urgent` without a call.
    #[cfg(not(feature = "loom"))]
    pub(crate) fn urgent_ptr(&self) -> *const u8 {
        self.urgent.as_ptr()
    }

    /// Takes the first channel of the queue.
    fn pop_channel(&self, state: &mut State) -> Option<usize> {
        let channel = state.queue.pop_front()? as usize;
        // A reader that is awake reads the rest as well.
        state.expected.queued = 0;
        state.priority = state.priority.saturating_sub(1);
        state.queued[channel] = false;
        self.urgent
            .store(u8::from(state.priority > 0), Ordering::Release);
        Some(channel)
    }

    /// Takes the next buffer or event of a channel, and queues the channel again if it has more.
    fn poll_channel(&self, index: usize) -> Result<Option<BufferOrEvent>> {
        let channel = &self.channels[index];
        let polled = match channel.poll() {
            Ok(Some(polled)) => polled,
            Ok(None) => return Ok(None),
            Err(error) => {
                self.on_error(error.clone());
                return Err(error);
            }
        };
        let data_type = polled.buffer.data_type();
        let more_available = if data_type == DataType::EndOfPartition {
            self.end_channel(index)?
        } else if polled.more {
            self.notify(index, data_type.has_priority() && channel.has_priority());
            true
        } else {
            self.has_news()
        };
        let buffer = polled.buffer;
        let is_remote = matches!(channel, InputChannel::Remote(_));
        self.counts.add(is_remote, buffer.size());
        if let Some(debloating) = &self.debloating {
            debloating.on_buffer(buffer.size());
        }
        Ok(Some(BufferOrEvent {
            channel: index,
            buffer,
            more_available,
        }))
    }

    /// Waits for data and takes it or its channel from the queue; otherwise returns why there is
    /// none.
    fn next_ready(&self, wait: Wait) -> Result<std::result::Result<Ready, Next>> {
        let mut state = self.state.lock();
        let mut waited = false;
        loop {
            if state.closed {
                return Err(closed());
            }
            if let Some(error) = &state.error {
                return Err(error.clone());
            }
            if state.woken && !matches!(wait, Wait::Never) {
                state.woken = false;
                return Ok(Err(Next::Woken));
            }
            if state.priority == 0
                && let Some((channel, buffer)) = state.recovered.pop_front()
            {
                return Ok(Ok(Ready::Recovered(channel, buffer)));
            }
            if let Some(channel) = self.pop_channel(&mut state) {
                return Ok(Ok(Ready::Channel(channel)));
            }
            if state.left == 0 {
                return Ok(Err(Next::End));
            }
            if !matches!(wait, Wait::Never) {
                self.on_empty();
            }
            let Some(timeout) = wait.left(&mut waited) else {
                return Ok(Err(Next::Nothing));
            };
            state = self.waiting.wait(&self.state, state, timeout);
        }
    }

    /// Pauses the measurement of the reader's throughput.
    pub(super) fn on_empty(&self) {
        if let Some(debloating) = &self.debloating {
            debloating.on_empty();
        }
    }

    /// Tells the producers how large their buffers should be, if that has changed; returns the
    /// latest size in bytes and the time, in milliseconds, to process the data in flight.
    pub(crate) fn debloat(&self, share: f64) -> Option<(u32, u64)> {
        let debloating = self.debloating.as_ref()?;
        let in_use = self.channels.iter().map(InputChannel::buffers_in_use).sum();
        if let Some(bytes) = debloating.recalculate(in_use, share) {
            for channel in &self.channels {
                channel.announce_buffer_size(bytes);
            }
        }
        Some(debloating.figures())
    }

    /// Returns the counts of the data read so far.
    pub(crate) fn received(&self) -> Received {
        self.counts.received()
    }

    /// Returns the number of buffers that wait to be read, how many of them lie in the gate's own
    /// memory, and how many that memory can hold now.
    pub(crate) fn buffer_usage(&self) -> (usize, usize, usize) {
        let (mut queued, mut used, mut total) = (0, 0, 0);
        let mut floating = 0;
        for channel in &self.channels {
            match channel {
                InputChannel::Local(channel) => queued += channel.buffers_in_use(),
                InputChannel::Remote(channel) => {
                    used += channel.queued();
                    total += channel.exclusive();
                    floating = self.floating.num_buffers();
                }
            }
        }
        (queued + used, used, total + floating)
    }

    pub(crate) fn prioritize_barrier(&self, channel: usize, checkpoint: i64) -> Result<bool> {
        match self.channels.get(channel) {
            Some(channel) => Ok(channel.prioritize_barrier(checkpoint)),
            None => Err(self.no_such(channel)),
        }
    }

    fn no_such(&self, channel: usize) -> Error {
        Error::IllegalState(format!(
            "channel {channel} of a gate with {}",
            self.channels.len()
        ))
    }

    /// Processes `EndOfPartition` and releases the channel; returns whether others are queued.
    fn end_channel(&self, channel: usize) -> Result<bool> {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.ended[channel], true) {
            let error = Error::CorruptStream(format!("channel {channel} has ended twice"));
            state.error = Some(error.clone());
            return Err(error);
        }
        state.left -= 1;
        let more = !state.queue.is_empty();
        drop(state);
        self.release_channel(channel);
        Ok(more)
    }

    fn release_channel(&self, channel: usize) {
        match &self.channels[channel] {
            InputChannel::Local(channel) => channel.release(&self.environment),
            InputChannel::Remote(channel) => channel.release(),
        }
    }

    /// Queues a channel with data and wakes the reader.
    pub(crate) fn notify(&self, channel: usize, priority: bool) {
        if self.enqueue(channel, priority) || (priority && self.is_joined()) {
            self.announce();
        }
    }

    /// Queues a channel with data; returns true if the caller must call `announce` soon.
    pub(crate) fn enqueue(&self, channel: usize, priority: bool) -> bool {
        let mut state = self.state.lock();
        if state.closed || state.ended[channel] {
            return false;
        }
        if state.queued[channel] {
            if !priority {
                return false;
            }
            let Some(at) = state
                .queue
                .iter()
                .position(|&queued| queued as usize == channel)
            else {
                return false;
            };
            if at < state.priority {
                return false;
            }
            state.queue.remove(at);
        }
        // A waiting reader has no recovered data either.
        let was_empty = state.queue.len() == state.expected.queued;
        state.queued[channel] = true;
        if priority {
            let at = state.priority;
            state.queue.insert(at, channel as u32);
            state.priority += 1;
            self.urgent.store(1, Ordering::Release);
        } else {
            state.queue.push_back(channel as u32);
        }
        was_empty
    }

    /// Like `enqueue` for a channel whose only element is an aligned barrier; nothing can follow
    /// until the reader resumes the channel.
    pub(crate) fn enqueue_barrier(&self, channel: usize, event: &[u8]) -> bool {
        let mut state = self.state.lock();
        let expected = &state.expected;
        let is_any = expected.event.is_empty();
        if expected.left == 0 || !(is_any || expected.event == event) || self.is_joined() {
            drop(state);
            return self.enqueue(channel, false);
        }
        if state.closed || state.ended[channel] || state.queued[channel] {
            return false;
        }
        let was_announced = state.queue.len() > state.expected.queued;
        state.queued[channel] = true;
        state.queue.push_back(channel as u32);
        if was_announced {
            return false;
        }
        if is_any {
            state.expected.event.extend_from_slice(event);
            state.expected.first = Some(Instant::now());
        }
        state.expected.queued += 1;
        if state.expected.queued < state.expected.left {
            return false;
        }
        state.expected.queued = 0;
        true
    }

    /// Does not wake the reader until `left` barriers that equal `event`, or are alike if it is
    /// empty, or anything else, have arrived.  Only the reader calls this, and checks the queue
    /// before it sleeps.
    ///
    /// Returns the arrival of the first of these, if the reader was not woken.
    pub(super) fn expect_barriers(&self, event: &[u8], left: usize) -> Option<Instant> {
        let expected = &mut self.state.lock().expected;
        expected.left = left;
        let first = expected.first.take();
        if expected.event == event {
            return first;
        }
        expected.event.clear();
        expected.event.extend_from_slice(event);
        None
    }

    /// Stores the first error, with which every later call fails.
    pub(crate) fn on_error(&self, error: Error) {
        let mut state = self.state.lock();
        if state.error.is_none() {
            state.error = Some(error);
        }
        drop(state);
        self.announce();
    }

    /// Wakes the reader of this gate.
    pub(crate) fn announce(&self) {
        self.waiting.notify_all();
        if let Some((union, index)) = self.parent.get()
            && let Some(union) = union.upgrade()
        {
            union.notify(*index, self.is_urgent());
        }
    }

    /// Returns whether a poll is expected to return something.
    pub(crate) fn has_news(&self) -> bool {
        let state = self.state.lock();
        !state.queue.is_empty()
            || !state.recovered.is_empty()
            || state.error.is_some()
            || state.closed
    }

    pub(crate) fn wakeup(&self) {
        self.state.lock().woken = true;
        self.waiting.notify_all();
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.state.lock().left == 0
    }

    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.closed, true) {
            return;
        }
        state.queue.clear();
        state.recovered.clear();
        state.kept.iter_mut().for_each(Vec::clear);
        drop(state);
        for channel in 0..self.channels.len() {
            self.release_channel(channel);
        }
        self.floating.lazy_destroy();
        self.announce();
    }
}

impl Drop for SingleInputGate {
    fn drop(&mut self) {
        self.close();
    }
}

pub(super) fn closed() -> Error {
    Error::CancelTask("the input gate is closed".into())
}
