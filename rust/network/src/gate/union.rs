//! Several gates as one: channel indices are shifted by the gate's offset, and gates take turns
//! buffer by buffer.

use std::collections::VecDeque;

use super::input_gate::{BufferOrEvent, Next, Wait};
use super::received::Received;
use super::single::{SingleInputGate, closed};
use crate::error::{Error, Result};
use crate::sync::{Arc, AtomicU8, Mutex, Ordering};
use crate::transport::Waiting;

#[derive(Debug)]
struct State {
    /// Gates that may have data, each at most once.
    queue: VecDeque<usize>,
    queued: Vec<bool>,
    woken: bool,
    closed: bool,
}

/// The union of several gates.
#[derive(Debug)]
pub struct UnionInputGate {
    state: Mutex<State>,
    waiting: Arc<Waiting>,
    /// 1 if a gate may have an event that overtakes data.
    urgent: AtomicU8,
    gates: Vec<Arc<SingleInputGate>>,
    /// Index of each gate's first channel.
    offsets: Vec<usize>,
    num_channels: usize,
}

impl UnionInputGate {
    /// Unites `gates`, whose own `next_buffer` must no longer be called.
    pub(crate) fn new(gates: Vec<Arc<SingleInputGate>>) -> Result<Arc<Self>> {
        if gates.is_empty() {
            return Err(Error::IllegalState("a union of no gates".into()));
        }
        let mut num_channels = 0;
        let mut offsets = Vec::with_capacity(gates.len());
        for (index, gate) in gates.iter().enumerate() {
            // Checked in advance: a rejected union must not keep its other gates.
            if gate.is_joined() || gates[..index].iter().any(|other| Arc::ptr_eq(other, gate)) {
                return Err(Error::IllegalState(
                    "a gate is part of a union already".into(),
                ));
            }
            offsets.push(num_channels);
            num_channels += gate.num_channels();
        }
        let waiting = match gates.iter().find_map(|gate| gate.transport()) {
            Some(transport) => Waiting::remote(transport)?,
            None => Waiting::local(),
        };
        let union = Arc::new(Self {
            state: Mutex::new(State {
                queue: VecDeque::with_capacity(gates.len()),
                queued: vec![false; gates.len()],
                woken: false,
                closed: false,
            }),
            waiting: Arc::new(waiting),
            urgent: AtomicU8::new(0),
            gates,
            offsets,
            num_channels,
        });
        for (index, gate) in union.gates.iter().enumerate() {
            gate.join(Arc::downgrade(&union), index)?;
            if gate.has_news() {
                union.notify(index, gate.is_urgent());
            }
        }
        Ok(union)
    }

    /// Returns the waiting place of the reader.
    pub(crate) fn waiting(&self) -> Arc<Waiting> {
        Arc::clone(&self.waiting)
    }

    pub(crate) fn num_channels(&self) -> usize {
        self.num_channels
    }

    pub(crate) fn request_partitions(&self) -> Result<()> {
        self.gates
            .iter()
            .try_for_each(|gate| gate.request_partitions())
    }

    /// Queues a gate with data.
    pub(crate) fn notify(&self, gate: usize, urgent: bool) {
        let mut state = self.state.lock();
        if !std::mem::replace(&mut state.queued[gate], true) {
            state.queue.push_back(gate);
        }
        if urgent {
            self.urgent.store(1, Ordering::Release);
        }
        drop(state);
        self.waiting.notify_all();
    }

    /// Returns the address at which a caller checks for events that overtake data, without a call.
    #[cfg(not(feature = "loom"))]
    pub(crate) fn urgent_ptr(&self) -> *const u8 {
        self.urgent.as_ptr()
    }

    /// Takes the next event that overtakes data, of any gate, if there is one; never waits.
    pub(crate) fn poll_urgent(&self) -> Result<Option<BufferOrEvent>> {
        // Swapped before the gates are checked: a later event raises it again.
        if self.urgent.load(Ordering::Acquire) == 0 || self.urgent.swap(0, Ordering::AcqRel) == 0 {
            return Ok(None);
        }
        for (index, gate) in self.gates.iter().enumerate() {
            if let Some(mut next) = gate.poll_urgent()? {
                // Other gates, or this one, may have more.
                self.urgent.store(1, Ordering::Release);
                next.channel += self.offsets[index];
                return Ok(Some(next));
            }
        }
        Ok(None)
    }

    /// Queues recovered in-flight data of a channel before all data that it will receive.
    pub(crate) fn recover(&self, channel: usize, buffers: &[Vec<u8>]) -> Result<()> {
        let (gate, channel) = self.gate_of(channel);
        gate.recover(channel, buffers)
    }

    pub(crate) fn poll(&self, wait: Wait) -> Result<Next> {
        loop {
            let index = match self.next_gate(wait)? {
                Ok(index) => {
                    if let Some(urgent) = self.poll_urgent()? {
                        // The gate whose turn it was comes next.
                        self.notify(index, false);
                        return Ok(Next::Buffer(urgent));
                    }
                    index
                }
                Err(none) => return Ok(if self.is_finished() { Next::End } else { none }),
            };
            let gate = &self.gates[index];
            let next = gate.poll(Wait::Never);
            if gate.has_news() {
                self.notify(index, gate.is_urgent());
            }
            if let Next::Buffer(mut buffer) = next? {
                buffer.channel += self.offsets[index];
                buffer.more_available |= !self.state.lock().queue.is_empty();
                return Ok(Next::Buffer(buffer));
            }
        }
    }

    /// Waits for a gate with data and takes it from the queue; otherwise returns why there is none.
    fn next_gate(&self, wait: Wait) -> Result<std::result::Result<usize, Next>> {
        let mut state = self.state.lock();
        let mut waited = false;
        loop {
            if state.closed {
                return Err(closed());
            }
            if state.woken && !matches!(wait, Wait::Never) {
                state.woken = false;
                return Ok(Err(Next::Woken));
            }
            if let Some(gate) = state.queue.pop_front() {
                state.queued[gate] = false;
                return Ok(Ok(gate));
            }
            if self.is_finished() {
                return Ok(Err(Next::End));
            }
            if !matches!(wait, Wait::Never) {
                self.gates.iter().for_each(|gate| gate.on_empty());
            }
            let Some(timeout) = wait.left(&mut waited) else {
                return Ok(Err(Next::Nothing));
            };
            state = self.waiting.wait(&self.state, state, timeout);
        }
    }

    pub(crate) fn wakeup(&self) {
        self.state.lock().woken = true;
        self.waiting.notify_all();
    }

    pub(crate) fn resume_consumption(&self, channel: usize) -> Result<()> {
        let index = self.offsets.partition_point(|&offset| offset <= channel) - 1;
        self.gates[index].resume_consumption(channel - self.offsets[index])
    }

    pub(crate) fn resume_all(&self, channels: &[usize]) -> Result<()> {
        for (index, gate) in self.gates.iter().enumerate() {
            let first = self.offsets[index];
            let end = first + gate.num_channels();
            let of_gate = channels
                .iter()
                .filter(|channel| (first..end).contains(channel));
            let of_gate: Vec<usize> = of_gate.map(|channel| channel - first).collect();
            gate.resume_all(&of_gate)?;
        }
        Ok(())
    }

    pub(crate) fn send_task_event(&self, event: &[u8]) -> Result<()> {
        self.gates
            .iter()
            .try_for_each(|gate| gate.send_task_event(event))
    }

    pub(crate) fn start_persisting(&self, checkpoint: i64) -> Result<()> {
        self.gates
            .iter()
            .try_for_each(|gate| gate.start_persisting(checkpoint))
    }

    pub(crate) fn stop_persisting(&self, checkpoint: i64) {
        for gate in &self.gates {
            gate.stop_persisting(checkpoint);
        }
    }

    pub(crate) fn take_persisted(&self, channel: usize) -> Result<(Vec<Vec<u8>>, bool)> {
        let (gate, channel) = self.gate_of(channel);
        gate.take_persisted(channel)
    }

    pub(crate) fn prioritize_barrier(&self, channel: usize, checkpoint: i64) -> Result<bool> {
        let (gate, channel) = self.gate_of(channel);
        gate.prioritize_barrier(channel, checkpoint)
    }

    /// Returns the gate of a channel, and the channel's index there.
    fn gate_of(&self, channel: usize) -> (&SingleInputGate, usize) {
        let index = self.offsets.partition_point(|&offset| offset <= channel) - 1;
        (&self.gates[index], channel - self.offsets[index])
    }

    pub(crate) fn debloat(&self, share: f64) -> Vec<(u32, u64)> {
        self.gates
            .iter()
            .filter_map(|gate| gate.debloat(share))
            .collect()
    }

    pub(crate) fn buffer_usage(&self) -> (usize, usize, usize) {
        self.gates
            .iter()
            .map(|gate| gate.buffer_usage())
            .fold((0, 0, 0), |(a, b, c), (x, y, z)| (a + x, b + y, c + z))
    }

    pub(crate) fn received(&self) -> Received {
        self.gates
            .iter()
            .map(|gate| gate.received())
            .fold(Received::default(), |sum, one| sum + one)
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.gates.iter().all(|gate| gate.is_finished())
    }

    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        for gate in &self.gates {
            gate.close();
        }
        self.waiting.notify_all();
    }
}
