//! Buffer sizes for a gate's producers (internals M6), from the bytes read while data was
//! available.

use std::time::Instant;

use penstock_memory::debloat::{BufferDebloater, DebloatOptions, ThroughputCalculator};

use crate::sync::Mutex;

#[derive(Debug)]
struct State {
    throughput: ThroughputCalculator,
    debloater: BufferDebloater,
}

/// Measures a gate and decides on sizes.
#[derive(Debug)]
pub(super) struct Debloating {
    began: Instant,
    state: Mutex<State>,
}

impl Debloating {
    pub(super) fn new(options: DebloatOptions) -> Self {
        Self {
            began: Instant::now(),
            state: Mutex::new(State {
                throughput: ThroughputCalculator::default(),
                debloater: BufferDebloater::new(options),
            }),
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Notes that a buffer was taken, so there is input.
    pub(super) fn on_buffer(&self, bytes: usize) {
        let now_ms = self.now_ms();
        let mut state = self.state.lock();
        state.throughput.resume(now_ms);
        state.throughput.count(bytes as u64);
    }

    /// Notes that there is no input.
    pub(super) fn on_empty(&self) {
        let now_ms = self.now_ms();
        self.state.lock().throughput.pause(now_ms);
    }

    /// Measures the throughput since the last call; returns the size to announce, if it should
    /// change.
    pub(super) fn recalculate(&self, buffers_in_use: usize, share: f64) -> Option<u32> {
        let now_ms = self.now_ms();
        let mut state = self.state.lock();
        let pace = state.throughput.calculate(now_ms);
        let buffers = u32::try_from(buffers_in_use).unwrap_or(u32::MAX);
        state.debloater.recalculate(pace, buffers, share)
    }

    /// Returns the last announced size in bytes, and the processing time of in-flight data in ms.
    pub(super) fn figures(&self) -> (u32, u64) {
        let state = self.state.lock();
        (
            state.debloater.announced_bytes(),
            state.debloater.estimated_drain_ms(),
        )
    }
}
