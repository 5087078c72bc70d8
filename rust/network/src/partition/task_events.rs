//! Events that consumers send back to the task that writes a partition.
//!
//! They wait here until the task takes them in its own thread: the receiving thread must never run
//! user code.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::event::{OTHER_EVENT, event_type};
use crate::sync::{Condvar, Mutex};
use crate::wire::MAX_CONTROL_FRAME_BYTES;

/// Maximum size of the waiting events, including overhead.
const MAX_WAITING_BYTES: usize = 1 << 20;
/// Bytes that an event counts besides its own.
const OVERHEAD_BYTES: usize = 64;
/// Longest event that fits a message, in bytes: ids and lengths of its frame need the rest.
pub(crate) const MAX_TASK_EVENT_BYTES: usize = MAX_CONTROL_FRAME_BYTES - 128;

/// Checks that bytes are a valid task event.
///
/// # Errors
/// `CorruptStream` if they are not a task event, `IllegalState` if they are too long.
pub(crate) fn check_task_event(event: &[u8]) -> Result<()> {
    match event_type(event)? {
        OTHER_EVENT if event.len() <= MAX_TASK_EVENT_BYTES => Ok(()),
        OTHER_EVENT => Err(Error::IllegalState(format!(
            "a task event of {} bytes; at most {MAX_TASK_EVENT_BYTES} can be sent",
            event.len()
        ))),
        other => Err(Error::CorruptStream(format!(
            "an event of type {other} travels against the stream; only task events do"
        ))),
    }
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Vec<u8>>,
    bytes: usize,
    released: bool,
}

/// The waiting events of a task.
#[derive(Debug, Default)]
pub(crate) struct TaskEvents {
    state: Mutex<State>,
    changed: Condvar,
}

impl TaskEvents {
    /// Stores an event for the task.
    ///
    /// # Errors
    /// `IllegalState` if too many wait, or the partition was released.
    pub(crate) fn push(&self, event: Vec<u8>) -> Result<()> {
        let mut state = self.state.lock();
        if state.released {
            return Err(nobody_listens());
        }
        let bytes = state.bytes + event.len() + OVERHEAD_BYTES;
        if bytes > MAX_WAITING_BYTES && !state.waiting.is_empty() {
            return Err(Error::IllegalState(format!(
                "the task event was refused: {} events of {} bytes wait for the producing task",
                state.waiting.len(),
                state.bytes
            )));
        }
        state.bytes = bytes;
        state.waiting.push_back(event);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Takes the next event, waiting up to `timeout`.
    ///
    /// # Errors
    /// `CancelTask` if the partition was released.
    pub(crate) fn next(&self, timeout: Duration) -> Result<Option<Vec<u8>>> {
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.state.lock();
        loop {
            if state.released {
                return Err(Error::CancelTask("the partition was released".into()));
            }
            if let Some(event) = state.waiting.pop_front() {
                state.bytes -= event.len() + OVERHEAD_BYTES;
                return Ok(Some(event));
            }
            let left = deadline.map_or(Duration::MAX, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return Ok(None);
            }
            state = self.changed.wait_timeout(state, left);
        }
    }

    /// Drops waiting events and wakes waiting threads.
    pub(crate) fn release(&self) {
        let mut state = self.state.lock();
        *state = State {
            released: true,
            ..State::default()
        };
        drop(state);
        self.changed.notify_all();
    }
}

/// Returns the error for the sender of an event whose producer is absent.
pub(crate) fn nobody_listens() -> Error {
    Error::IllegalState("the task event found no task that writes its partition".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(body: usize) -> Vec<u8> {
        let mut bytes = vec![0; 4 + body];
        bytes[..4].copy_from_slice(&OTHER_EVENT.to_be_bytes());
        bytes
    }

    #[test]
    fn events_come_in_order_and_are_bounded() {
        let events = TaskEvents::default();
        events.push(event(1)).unwrap();
        events.push(event(2)).unwrap();
        assert_eq!(events.next(Duration::ZERO).unwrap(), Some(event(1)));
        let refused = (0..)
            .map(|_| events.push(event(100_000)))
            .find_map(Result::err);
        assert!(matches!(refused, Some(Error::IllegalState(_))));
        assert_eq!(events.next(Duration::ZERO).unwrap(), Some(event(2)));
        events.push(event(3)).unwrap();
    }

    #[test]
    fn release_wakes_and_refuses() {
        let events = TaskEvents::default();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| events.next(Duration::MAX));
            events.release();
            assert!(matches!(waiting.join().unwrap(), Err(Error::CancelTask(_))));
        });
        assert!(events.push(event(1)).is_err());
    }

    #[test]
    fn only_task_events_travel_backwards() {
        assert!(check_task_event(&event(7)).is_ok());
        assert!(check_task_event(&crate::event::END_OF_PARTITION_BYTES).is_err());
        assert!(check_task_event(&event(MAX_CONTROL_FRAME_BYTES)).is_err());
    }
}
