//! The registry of an executor's partitions.
//!
//! A reader may connect before its partition exists: then it is stored as a listener until the
//! partition is registered or the request timeout has passed.

use std::collections::HashMap;
use std::time::Instant;

use super::shared::PartitionShared;
use super::task_events::nobody_listens;
use crate::error::{Error, Result};
use crate::gate::LocalInputChannel;
use crate::sync::{Arc, Mutex};
use crate::wire::{PartitionId, PartitionRequest};

/// A listener that waits for a partition.
#[derive(Debug, Clone)]
pub(crate) enum Listener {
    /// A consumer behind a server connection.
    Remote {
        /// The connection's token.
        connection: usize,
        /// The request.
        request: PartitionRequest,
    },
    /// A channel of this executor.
    Local(Arc<LocalInputChannel>),
}

#[derive(Debug)]
struct Waiting {
    listener: Listener,
    deadline: Instant,
}

#[derive(Debug, Default)]
struct State {
    partitions: HashMap<PartitionId, Arc<PartitionShared>>,
    waiting: HashMap<PartitionId, Vec<Waiting>>,
}

/// The registry.
#[derive(Debug, Default)]
pub(crate) struct PartitionManager {
    state: Mutex<State>,
}

impl PartitionManager {
    /// Registers a partition and returns its listeners.
    ///
    /// # Errors
    /// `IllegalState` if the id is taken.
    pub(crate) fn register(&self, partition: Arc<PartitionShared>) -> Result<Vec<Listener>> {
        let mut state = self.state.lock();
        if state.partitions.contains_key(&partition.id) {
            return Err(Error::IllegalState(
                "the partition is registered already".into(),
            ));
        }
        let waiting = state.waiting.remove(&partition.id).unwrap_or_default();
        state.partitions.insert(partition.id, partition);
        Ok(waiting
            .into_iter()
            .map(|waiting| waiting.listener)
            .collect())
    }

    /// Unregisters a partition.
    pub(crate) fn unregister(&self, partition: &Arc<PartitionShared>) {
        let mut state = self.state.lock();
        if state
            .partitions
            .get(&partition.id)
            .is_some_and(|known| Arc::ptr_eq(known, partition))
        {
            state.partitions.remove(&partition.id);
        }
    }

    /// Finds a partition, or stores the result of `listener` until `deadline`.
    pub(crate) fn find_or_wait(
        &self,
        id: &PartitionId,
        deadline: Instant,
        listener: impl FnOnce() -> Listener,
    ) -> Option<Arc<PartitionShared>> {
        let mut state = self.state.lock();
        if let Some(partition) = state.partitions.get(id) {
            return Some(Arc::clone(partition));
        }
        let waiting = Waiting {
            listener: listener(),
            deadline,
        };
        state.waiting.entry(*id).or_default().push(waiting);
        None
    }

    /// Finds a partition that is registered now.
    pub(crate) fn find(&self, id: &PartitionId) -> Option<Arc<PartitionShared>> {
        self.state.lock().partitions.get(id).cloned()
    }

    /// Stores an event for the task that writes a partition.
    ///
    /// # Errors
    /// `IllegalState` if there is no such partition here, or too many of its events wait.
    pub(crate) fn publish_task_event(&self, id: &PartitionId, event: Vec<u8>) -> Result<()> {
        let partition = self.find(id).ok_or_else(nobody_listens)?;
        partition.task_events.push(event)
    }

    /// Drops the listeners for which `matches` is true.
    pub(crate) fn forget(&self, matches: impl Fn(&Listener) -> bool) {
        let mut state = self.state.lock();
        let mut dropped = Vec::new();
        state.waiting.retain(|_, list| {
            dropped.extend(list.extract_if(.., |waiting| matches(&waiting.listener)));
            !list.is_empty()
        });
        drop(state);
        drop(dropped);
    }

    /// Returns the next deadline of a listener.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.state
            .lock()
            .waiting
            .values()
            .flatten()
            .map(|waiting| waiting.deadline)
            .min()
    }

    /// Removes and returns the listeners whose deadline has passed.
    pub(crate) fn expire(&self, now: Instant) -> Vec<Listener> {
        let mut state = self.state.lock();
        let mut expired = Vec::new();
        state.waiting.retain(|_, list| {
            expired.extend(list.extract_if(.., |waiting| waiting.deadline <= now));
            !list.is_empty()
        });
        expired
            .into_iter()
            .map(|waiting| waiting.listener)
            .collect()
    }

    /// Removes and returns every partition.
    pub(crate) fn drain(&self) -> Vec<Arc<PartitionShared>> {
        let mut state = self.state.lock();
        state.waiting.clear();
        state
            .partitions
            .drain()
            .map(|(_, partition)| partition)
            .collect()
    }
}
