//! A lock for critical sections of a few nanoseconds.
//!
//! A pool takes its lock twice per buffer (request and recycle).  `std::sync::Mutex` needs an
//! atomic read-modify-write to lock *and* to unlock; this lock unlocks with a plain release store,
//! which halves the cost of the uncontended path.  It spins, then yields, so it must never be held
//! across a blocking call, a callback or an unbounded loop.

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::sync::{AtomicBool, Ordering, spin_wait};

/// Mutual exclusion for very short critical sections.
pub(crate) struct ShortLock<T> {
    /// True while a guard exists.
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value moves with the lock, so sending the lock sends the value.
unsafe impl<T: Send> Send for ShortLock<T> {}
// SAFETY: `held` lets one thread at a time reach the value.
unsafe impl<T: Send> Sync for ShortLock<T> {}

impl<T> ShortLock<T> {
    /// Creates an unlocked lock.
    pub(crate) fn new(value: T) -> Self {
        Self {
            held: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the lock and takes it.
    #[inline]
    pub(crate) fn lock(&self) -> ShortGuard<'_, T> {
        if self
            .held
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            self.lock_contended();
        }
        ShortGuard { lock: self }
    }

    #[cold]
    fn lock_contended(&self) {
        let mut round = 0_u32;
        loop {
            while self.held.load(Ordering::Relaxed) {
                spin_wait(round);
                round = round.saturating_add(1);
            }
            if self
                .held
                .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                return;
            }
            spin_wait(round);
            round = round.saturating_add(1);
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for ShortLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ShortLock").field(&*self.lock()).finish()
    }
}

/// Access to the value of a [`ShortLock`]; dropping it unlocks.
pub(crate) struct ShortGuard<'a, T> {
    lock: &'a ShortLock<T>,
}

impl<T> Deref for ShortGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard exists only while `held` is ours.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for ShortGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard exists only while `held` is ours, and it is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for ShortGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.held.store(false, Ordering::Release);
    }
}
