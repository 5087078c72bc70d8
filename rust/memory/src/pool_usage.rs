//! Requested usage of a network pool, for the log.

use crate::network_buffer_pool::{Factory, NetworkBufferPool};
use crate::sync::lock;

impl NetworkBufferPool {
    /// Returns the segments that pools and channels would like to have, in percent of all.
    #[must_use]
    pub fn estimated_usage_percent(&self) -> usize {
        self.usage_percent(&lock(&self.factory))
    }

    /// Returns a log message if the usage crossed 100 % since the last call, either way, or has
    /// doubled since the last message: each of a job's hundred tasks adds a little.
    #[must_use]
    pub fn usage_message(&self) -> Option<String> {
        let mut factory = lock(&self.factory);
        let percent = self.usage_percent(&factory);
        let before = factory.reported_usage;
        if percent >= 100 {
            if before.is_some_and(|reported| percent < 2 * reported) {
                return None;
            }
            factory.reported_usage = Some(percent);
            Some(format!(
                "Memory usage [{percent}%] of {} network buffers is too high; jobs will be slower \
                 than they could be. Raise 'taskmanager.memory.network.segments'.",
                self.slots.len()
            ))
        } else {
            factory.reported_usage = None;
            before
                .map(|_| format!("Memory usage [{percent}%] of network buffers is back to normal."))
        }
    }

    fn usage_percent(&self, factory: &Factory) -> usize {
        let minima: usize = factory
            .pools
            .iter()
            .map(|pool| pool.options().min_segments)
            .sum();
        let wanted: usize = factory
            .pools
            .iter()
            .map(|pool| pool.estimated_requested())
            .sum();
        let wanted = wanted + (factory.required - minima);
        if self.slots.is_empty() {
            0
        } else {
            wanted.saturating_mul(100) / self.slots.len()
        }
    }
}
