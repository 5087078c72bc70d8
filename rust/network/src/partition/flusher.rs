//! The output flusher: one thread per environment makes committed records visible on time.
//!
//! It sleeps without a timeout while no partition flushes by time.  Otherwise it wakes at the
//! earliest interval and checks one byte per subpartition; it takes a lock only if the byte is set.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::shared::PartitionShared;
use crate::error::{Error, Result};
use crate::sync::{Arc, Condvar, Mutex, Weak};

#[derive(Debug)]
struct Timed {
    partition: Weak<PartitionShared>,
    interval: Duration,
    due: Instant,
}

#[derive(Debug, Default)]
struct State {
    timed: Vec<Timed>,
    closing: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// Handle of the flusher thread.
#[derive(Debug)]
pub(crate) struct OutputFlusher {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl OutputFlusher {
    pub(crate) fn start() -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("penstock-flusher".into())
            .spawn(move || run(&for_thread))
            .map_err(|error| Error::io("starting the output flusher", &error))?;
        Ok(Self {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Creates a flusher without a thread: models flush by themselves.
    #[cfg(feature = "loom")]
    pub(crate) fn detached() -> Self {
        Self {
            shared: Arc::new(Shared::default()),
            thread: Mutex::new(None),
        }
    }

    /// Flushes `partition` every `interval` from now on, as long as it lives.
    pub(crate) fn add(&self, partition: &Arc<PartitionShared>, interval: Duration) {
        let due = Instant::now() + interval;
        self.shared.state.lock().timed.push(Timed {
            partition: Arc::downgrade(partition),
            interval,
            due,
        });
        self.shared.changed.notify_one();
    }

    /// Stops flushing `partition`.
    pub(crate) fn remove(&self, partition: &Arc<PartitionShared>) {
        let gone = Arc::as_ptr(partition);
        self.shared
            .state
            .lock()
            .timed
            .retain(|timed| !std::ptr::eq(timed.partition.as_ptr(), gone));
    }

    /// Ends the thread and joins it.
    pub(crate) fn close(&self) {
        self.shared.state.lock().closing = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            log::error!("the output flusher panicked");
        }
    }
}

fn run(shared: &Shared) {
    let mut due = Vec::new();
    let mut state = shared.state.lock();
    while !state.closing {
        let now = Instant::now();
        state.timed.retain_mut(|timed| {
            if timed.due > now {
                return true;
            }
            timed.due = now + timed.interval;
            match timed.partition.upgrade() {
                Some(partition) => due.push(partition),
                None => return false,
            }
            true
        });
        if !due.is_empty() {
            drop(state);
            for partition in due.drain(..) {
                partition.flush_dirty();
            }
            state = shared.state.lock();
            continue;
        }
        state = match state.timed.iter().map(|timed| timed.due).min() {
            Some(next) => shared
                .changed
                .wait_timeout(state, next.saturating_duration_since(now)),
            None => shared.changed.wait(state),
        };
    }
}
