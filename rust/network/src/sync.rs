//! The synchronisation primitives of this crate, all from one place.
//!
//! A poisoned lock is taken over: a panic is reported where it happened, and what these locks
//! guard (queues, counters) is consistent between statements, so the other channels go on and
//! shutdown still returns every buffer.

pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{MutexGuard, Weak};

use std::sync::PoisonError;
use std::time::Duration;

/// A mutual exclusion lock that ignores poisoning.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }
}

/// A condition variable that ignores poisoning and costs nothing to notify while nobody waits.
///
/// Whoever notifies must have changed the condition under the mutex that waiters hold: a waiter
/// counts itself under that mutex, so it is either seen here or sees the change itself.
#[derive(Debug, Default)]
pub(crate) struct Condvar {
    condition: std::sync::Condvar,
    waiters: AtomicUsize,
}

impl Condvar {
    pub(crate) const fn new() -> Self {
        Self {
            condition: std::sync::Condvar::new(),
            waiters: AtomicUsize::new(0),
        }
    }

    pub(crate) fn notify_all(&self) {
        if self.waiters.load(Ordering::Acquire) > 0 {
            self.condition.notify_all();
        }
    }

    pub(crate) fn notify_one(&self) {
        if self.waiters.load(Ordering::Acquire) > 0 {
            self.condition.notify_one();
        }
    }

    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.waiters.fetch_add(1, Ordering::AcqRel);
        let guard = self
            .condition
            .wait(guard)
            .unwrap_or_else(PoisonError::into_inner);
        self.waiters.fetch_sub(1, Ordering::AcqRel);
        guard
    }

    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> MutexGuard<'a, T> {
        self.waiters.fetch_add(1, Ordering::AcqRel);
        let waited = self.condition.wait_timeout(guard, timeout);
        self.waiters.fetch_sub(1, Ordering::AcqRel);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
