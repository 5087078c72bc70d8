//! The synchronisation primitives of this crate, all in one place.
//!
//! With the feature `loom` they are loom's, so that the models in `tests/loom_*.rs` explore every
//! interleaving of the production code.  `Arc` is always the standard one: it is not under test,
//! and loom's cannot hold trait objects.

pub(crate) use std::sync::Arc;

#[cfg(not(feature = "loom"))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering, fence};
#[cfg(not(feature = "loom"))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

#[cfg(feature = "loom")]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering, fence};
#[cfg(feature = "loom")]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};

use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// Locks `mutex`; a panic of an earlier holder does not spread.
///
/// Every critical section of this crate leaves its data consistent before it can panic, so the
/// poison flag carries no information here.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of looks at a lock between which a thread spins, about ten microseconds in total.
#[cfg(not(feature = "loom"))]
const SPIN_ROUNDS: u32 = 9;

/// Tells the processor, and loom's scheduler, that this thread waits for another.
pub(crate) fn spin_wait(round: u32) {
    #[cfg(feature = "loom")]
    {
        let _ = round;
        loom::thread::yield_now();
    }
    #[cfg(not(feature = "loom"))]
    if round < SPIN_ROUNDS {
        // Every look takes the holder's cache line away, so each is rarer than the last: the holder
        // makes more progress than two threads that alternate.
        for _ in 0..1 << round.min(SPIN_ROUNDS - 2) {
            std::hint::spin_loop();
        }
    } else {
        // The holder was probably preempted; spinning on would only keep it off the processor.
        std::thread::yield_now();
    }
}

/// The end of a bounded wait, on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// Returns the moment `timeout` from now; `None` means never.
    pub(crate) fn after(timeout: Option<Duration>) -> Self {
        Self(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    /// Returns the time left, zero once passed; `None` if there is no end.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        self.0
            .map(|end| end.saturating_duration_since(Instant::now()))
    }
}
