//! The synchronisation primitives of this crate, all in one place.
//!
//! A poisoned lock is ignored: a panic is reported where it happened, and the data under these
//! locks (queues, counters) is consistent between statements, so the other channels continue and
//! shutdown still returns every buffer.
//!
//! With the feature `loom` they are loom's, so that `loom_models` explores the interleavings of the
//! production code.  `Arc` is always the standard one: it is not under test, and loom's cannot hold
//! trait objects.

#[cfg(not(feature = "loom"))]
use std::sync as imp;

#[cfg(feature = "loom")]
use loom::sync as imp;

pub(crate) use imp::MutexGuard;
pub(crate) use imp::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Arc, Weak};

use std::sync::PoisonError;
use std::time::Duration;

/// A mutual exclusion lock that ignores poisoning.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
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

/// A condition variable that ignores poisoning and whose notifications are free while nobody waits.
///
/// The notifier must have changed the condition under the mutex that waiters hold: a waiter counts
/// itself under that mutex, so it is either seen here or sees the change itself.
#[derive(Debug, Default)]
pub(crate) struct Condvar {
    condition: imp::Condvar,
    waiters: AtomicUsize,
}

impl Condvar {
    pub(crate) fn new() -> Self {
        Self {
            condition: imp::Condvar::new(),
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

/// Replaces the waker of a poll: a wake-up persists until it is taken, and one stands for many.
#[cfg(feature = "loom")]
#[derive(Debug, Default)]
pub(crate) struct Waker {
    woken: Mutex<bool>,
    changed: Condvar,
    /// Rings where the model of a poll sleeps otherwise.
    bell: std::sync::OnceLock<Bell>,
}

#[cfg(feature = "loom")]
struct Bell(Box<dyn Fn() + Send + Sync>);

#[cfg(feature = "loom")]
impl std::fmt::Debug for Bell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bell")
    }
}

#[cfg(feature = "loom")]
impl Waker {
    /// As of the real one, whose registration is not under test.
    pub(crate) fn new(_: &mio::Registry, _: mio::Token) -> std::io::Result<Self> {
        Ok(Self::default())
    }

    /// Makes wake-ups also ring a bell, at which the model sleeps.
    pub(crate) fn ring_by(&self, bell: impl Fn() + Send + Sync + 'static) {
        self.bell.get_or_init(|| Bell(Box::new(bell)));
    }

    pub(crate) fn wake(&self) -> std::io::Result<()> {
        if let Some(Bell(ring)) = self.bell.get() {
            ring();
            return Ok(());
        }
        *self.woken.lock() = true;
        self.changed.notify_one();
        Ok(())
    }

    /// Waits for a wake-up and takes it, as polling does.
    pub(crate) fn wait(&self) {
        let mut woken = self.woken.lock();
        while !std::mem::take(&mut *woken) {
            woken = self.changed.wait(woken);
        }
    }
}

/// Replaces a thread's sleep in the kernel, which must not stop a model.
#[cfg(feature = "loom")]
#[derive(Debug, Default)]
pub(crate) struct Sleeper {
    asleep: Mutex<bool>,
    changed: Condvar,
}

#[cfg(feature = "loom")]
impl Sleeper {
    /// Sleeps until `poll` returns true; a timeout ends it at once, as models have no clock.
    pub(crate) fn sleep(&self, timeout: Option<Duration>, mut poll: impl FnMut() -> bool) {
        let mut asleep = self.asleep.lock();
        while !poll() && timeout.is_none() {
            *asleep = true;
            while *asleep {
                asleep = self.changed.wait(asleep);
            }
        }
    }

    /// Makes a sleeping thread poll again; returns whether there was one.
    pub(crate) fn poke(&self) -> bool {
        let slept = std::mem::take(&mut *self.asleep.lock());
        self.changed.notify_all();
        slept
    }
}
