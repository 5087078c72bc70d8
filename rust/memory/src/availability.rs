//! The availability of a pool as a future that costs nothing while nobody waits.
//!
//! A pool flips between available and unavailable with nearly every buffer, so the future of an
//! unavailable period is created only on request.

use std::fmt;
use std::time::Duration;

use crate::network_buffer_pool::NetworkBufferPool;
use crate::slot::SlotRef;
use crate::sync::{Arc, Condvar, Deadline, Mutex, lock};

/// Callback of a completed [`AvailabilityFuture`].  It must be short and must not block.
pub type Callback = Box<dyn FnOnce() + Send>;

/// Completes when its pool becomes available, or is destroyed.
#[derive(Clone)]
pub struct AvailabilityFuture {
    /// `None` if it was complete from the beginning.
    signal: Option<Arc<Signal>>,
}

impl AvailabilityFuture {
    /// A completed future.
    pub(crate) const DONE: Self = Self { signal: None };

    /// Returns whether the future is complete.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.signal
            .as_ref()
            .is_none_or(|signal| lock(&signal.state).done)
    }

    /// Returns whether both are of the same unavailable period of one pool.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.signal, &other.signal) {
            (Some(signal), Some(other)) => Arc::ptr_eq(signal, other),
            _ => false,
        }
    }

    /// Waits for completion and returns true, or false after `timeout` (`None`: no limit; the wait
    /// then ends at the latest when the pool is destroyed).
    #[must_use]
    pub fn wait(&self, timeout: Option<Duration>) -> bool {
        self.signal
            .as_ref()
            .is_none_or(|signal| signal.wait(timeout))
    }

    /// Runs `callback` on completion: now, or on the completing thread.
    pub fn on_done(&self, callback: Callback) {
        if let Err(callback) = self.register(callback) {
            callback();
        }
    }

    /// Stores `callback` until completion; returns it if the future is complete.
    pub(crate) fn register(&self, callback: Callback) -> Result<(), Callback> {
        match &self.signal {
            Some(signal) => signal.register(callback),
            None => Err(callback),
        }
    }

    /// Returns whether it was complete from the beginning, like that of a destroyed pool without
    /// segments.
    pub(crate) fn is_done_forever(&self) -> bool {
        self.signal.is_none()
    }
}

impl fmt::Debug for AvailabilityFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AvailabilityFuture")
            .field("done", &self.is_done())
            .finish()
    }
}

/// The shared state of the futures of one unavailable period.
pub(crate) struct Signal {
    state: Mutex<SignalState>,
    changed: Condvar,
}

struct SignalState {
    done: bool,
    callbacks: Vec<Callback>,
}

impl Signal {
    fn new() -> Self {
        Self {
            state: Mutex::new(SignalState {
                done: false,
                callbacks: Vec::new(),
            }),
            changed: Condvar::new(),
        }
    }

    fn wait(&self, timeout: Option<Duration>) -> bool {
        let deadline = Deadline::after(timeout);
        let mut state = lock(&self.state);
        while !state.done {
            state = match deadline.remaining() {
                None => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(std::sync::PoisonError::into_inner),
                Some(Duration::ZERO) => return false,
                Some(left) => {
                    self.changed
                        .wait_timeout(state, left)
                        .unwrap_or_else(std::sync::PoisonError::into_inner)
                        .0
                }
            };
        }
        true
    }

    fn register(&self, callback: Callback) -> Result<(), Callback> {
        let mut state = lock(&self.state);
        if state.done {
            return Err(callback);
        }
        state.callbacks.push(callback);
        Ok(())
    }

    /// Wakes all waiting threads.  Must be called without a pool's lock: callbacks take locks.
    pub(crate) fn complete(&self) {
        let callbacks = {
            let mut state = lock(&self.state);
            state.done = true;
            std::mem::take(&mut state.callbacks)
        };
        self.changed.notify_all();
        for callback in callbacks {
            callback();
        }
    }
}

/// The availability of one pool; lives under the pool's lock.
pub(crate) struct AvailabilityHelper {
    available: bool,
    /// The future of the current unavailable period, if it was requested.
    signal: Option<Arc<Signal>>,
}

impl AvailabilityHelper {
    pub(crate) fn new(available: bool) -> Self {
        Self {
            available,
            signal: None,
        }
    }

    pub(crate) fn is_available(&self) -> bool {
        self.available
    }

    /// Sets the state; the caller completes the returned signal after it has released the lock.
    #[must_use]
    pub(crate) fn set(&mut self, available: bool) -> Option<Arc<Signal>> {
        self.available = available;
        if available { self.signal.take() } else { None }
    }

    /// Returns the future of the current state.
    pub(crate) fn future(&mut self) -> AvailabilityFuture {
        if self.available {
            return AvailabilityFuture::DONE;
        }
        let signal = self.signal.get_or_insert_with(|| Arc::new(Signal::new()));
        AvailabilityFuture {
            signal: Some(Arc::clone(signal)),
        }
    }
}

/// Wake-ups to send once the pool's lock is released.
#[derive(Default)]
pub(crate) struct Wakeups {
    returned: Vec<(Arc<NetworkBufferPool>, SlotRef)>,
    signals: Vec<Arc<Signal>>,
    callbacks: Vec<Callback>,
}

impl Wakeups {
    pub(crate) fn push_signal(&mut self, signal: Option<Arc<Signal>>) {
        self.signals.extend(signal);
    }

    pub(crate) fn push_returned(&mut self, pool: Arc<NetworkBufferPool>, slot: SlotRef) {
        self.returned.push((pool, slot));
    }

    pub(crate) fn push_callback(&mut self, callback: Callback) {
        self.callbacks.push(callback);
    }

    /// Sends all wake-ups.  No lock may be held.
    pub(crate) fn run(self) {
        for (pool, slot) in self.returned {
            pool.recycle_pooled(slot);
        }
        for signal in self.signals {
            signal.complete();
        }
        for callback in self.callbacks {
            callback();
        }
    }
}
