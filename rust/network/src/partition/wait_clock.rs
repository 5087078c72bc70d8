//! Time that a writer has waited for buffers: hard back pressure (internals M25).

use std::time::{Duration, Instant};

use crate::sync::Mutex;

#[derive(Debug, Default)]
struct Waits {
    total: Duration,
    /// The longest wait since it was last requested.
    longest: Duration,
    /// Start of the current wait.
    began: Option<Instant>,
}

impl Waits {
    fn present(&self) -> Duration {
        self.began.map_or(Duration::ZERO, |began| began.elapsed())
    }
}

/// Adds up waits; the current wait counts up to now.
#[derive(Debug, Default)]
pub(super) struct WaitClock(Mutex<Waits>);

impl WaitClock {
    /// Counts the time that `wait` takes.
    pub(super) fn during<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.0.lock().began = Some(Instant::now());
        let result = wait();
        let mut state = self.0.lock();
        let waited = state.present();
        state.began = None;
        state.total += waited;
        state.longest = state.longest.max(waited);
        result
    }

    /// Returns the total time so far.
    pub(super) fn total(&self) -> Duration {
        let state = self.0.lock();
        state.total + state.present()
    }

    /// Returns the longest wait since the last call, including the current one.
    pub(super) fn take_longest(&self) -> Duration {
        let mut state = self.0.lock();
        let longest = state.longest.max(state.present());
        state.longest = Duration::ZERO;
        longest
    }
}

#[cfg(all(test, not(feature = "loom")))]
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

    #[test]
    fn the_longest_wait_is_of_the_time_since_the_last_call() {
        let clock = WaitClock::default();
        assert_eq!(clock.take_longest(), Duration::ZERO);
        let present = clock.during(|| {
            let began = clock.total();
            while clock.total() == began {}
            clock.take_longest()
        });
        assert!(present > Duration::ZERO);
        let finished = clock.take_longest();
        assert!(finished >= present);
        assert_eq!(clock.take_longest(), Duration::ZERO);
    }
}
