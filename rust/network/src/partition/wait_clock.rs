//! How long a writer has waited for buffers: its hard backpressure (SEMANTICS C11).

use std::time::{Duration, Instant};

use crate::sync::Mutex;

/// Adds up waits; a wait that goes on counts up to now.
#[derive(Debug, Default)]
pub(super) struct WaitClock(Mutex<(Duration, Option<Instant>)>);

impl WaitClock {
    /// Counts the time that `wait` takes.
    pub(super) fn during<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.0.lock().1 = Some(Instant::now());
        let result = wait();
        let mut state = self.0.lock();
        if let Some(began) = state.1.take() {
            state.0 += began.elapsed();
        }
        result
    }

    /// All the time until now.
    pub(super) fn total(&self) -> Duration {
        let state = self.0.lock();
        state.0 + state.1.map_or(Duration::ZERO, |began| began.elapsed())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn waits_add_up_and_the_present_one_counts() {
        let clock = WaitClock::default();
        assert_eq!(clock.total(), Duration::ZERO);
        let grown = clock.during(|| {
            let before = clock.total();
            while clock.total() == before {}
            clock.total()
        });
        let after = clock.total();
        assert!(after >= grown);
        assert_eq!(clock.total(), after);
    }
}
