//! A reader's view of a subpartition of either kind.

use super::blocking::{BlockingPosition, BlockingSubpartition};
use super::shared::{PartitionShared, Subpartition};
use super::subpartition::{AvailabilityListener, BufferAndBacklog, Released};
use crate::error::{Error, Result};
use crate::sync::{Arc, Mutex};

/// A reader's handle on one subpartition.
pub(crate) struct SubpartitionView {
    partition: Arc<PartitionShared>,
    index: usize,
    /// Position of this reader; pipelined subpartitions keep their own.
    position: Mutex<BlockingPosition>,
    listener: Mutex<Option<Arc<dyn AvailabilityListener>>>,
}

impl std::fmt::Debug for SubpartitionView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SubpartitionView")
            .field("index", &self.index)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl SubpartitionView {
    /// Creates a handle without notifications; `connect` opens it.
    ///
    /// # Errors
    /// `PartitionNotFound` if the partition has no such subpartition.
    pub(crate) fn new(partition: Arc<PartitionShared>, index: usize) -> Result<Self> {
        if index >= partition.subpartitions.len() {
            return Err(Error::PartitionNotFound(format!(
                "subpartition {index} of a partition with {}",
                partition.subpartitions.len()
            )));
        }
        Ok(Self {
            partition,
            index,
            position: Mutex::new(BlockingPosition::default()),
            listener: Mutex::new(None),
        })
    }

    fn subpartition(&self) -> &Subpartition {
        &self.partition.subpartitions[self.index]
    }

    /// Starts reading; the listener may be called at once.
    ///
    /// # Errors
    /// `ProducerFailed` or `PartitionNotFound` if there is nothing left to read, `IllegalState` for
    /// a second reader of a pipelined subpartition.
    pub(crate) fn connect(&self, listener: Arc<dyn AvailabilityListener>) -> Result<()> {
        match self.subpartition() {
            Subpartition::Pipelined(pipelined) => pipelined.create_view(listener),
            Subpartition::Blocking(blocking) => {
                *self.listener.lock() = Some(Arc::clone(&listener));
                blocking.connect(listener)
            }
        }
    }

    /// Takes the next buffer, or `None`.
    ///
    /// # Errors
    /// `Io` if a file cannot be read, `IllegalState` if the queue is in disorder.
    pub(crate) fn poll(&self) -> Result<Option<BufferAndBacklog>> {
        match self.subpartition() {
            Subpartition::Pipelined(pipelined) => {
                let next = pipelined.poll()?;
                if let Some(next) = &next {
                    if next.buffer.data_type().requires_announcement() {
                        self.partition.on_barrier_taken();
                    }
                    // A view has one reader, polled by one thread at a time: its task's, or the
                    // holder of its connection.  So changes are applied in order.
                    if let Some(quota) = next.quota {
                        self.partition.pool.set_quota(self.index, quota);
                    }
                }
                Ok(next)
            }
            Subpartition::Blocking(blocking) => blocking.poll(&mut self.position.lock()),
        }
    }

    /// Resumes after a buffer that blocked.
    ///
    /// # Errors
    /// `IllegalState` if nothing blocks.
    pub(crate) fn resume_consumption(&self) -> Result<()> {
        match self.subpartition() {
            Subpartition::Pipelined(pipelined) => pipelined.resume_consumption(),
            Subpartition::Blocking(_) => BlockingSubpartition::resume(&mut self.position.lock()),
        }
    }

    /// Returns whether something could be polled, given whether there is credit for data.
    pub(crate) fn is_available(&self, has_credit: bool) -> bool {
        match self.subpartition() {
            Subpartition::Pipelined(pipelined) => pipelined.is_available(has_credit),
            Subpartition::Blocking(blocking) => {
                blocking.is_available(&self.position.lock(), has_credit)
            }
        }
    }

    /// Returns whether an event that overtakes data comes next.
    pub(crate) fn has_priority(&self) -> bool {
        match self.subpartition() {
            Subpartition::Pipelined(pipelined) => pipelined.has_priority(),
            Subpartition::Blocking(_) => false,
        }
    }

    /// Data buffers that could be taken, as announced to the reader.
    pub(crate) fn backlog(&self) -> i32 {
        match self.subpartition() {
            Subpartition::Pipelined(pipelined) => pipelined.backlog(),
            Subpartition::Blocking(blocking) => blocking.backlog(&self.position.lock()),
        }
    }

    /// Returns the reason of an early end of the subpartition, if any.
    pub(crate) fn released(&self) -> Option<Released> {
        match self.subpartition() {
            Subpartition::Pipelined(pipelined) => pipelined.released(),
            Subpartition::Blocking(blocking) => blocking.released(),
        }
    }

    /// Elements that wait in memory, events included.
    pub(crate) fn queued(&self) -> usize {
        self.subpartition().queued()
    }

    /// Sets the wanted size of the next buffers; data in a file keeps its size.
    pub(crate) fn set_desired_buffer_size(&self, bytes: usize) {
        if let Subpartition::Pipelined(pipelined) = self.subpartition() {
            pipelined.set_desired_buffer_size(bytes);
        }
    }

    /// Releases the view: the reader needs no more.
    pub(crate) fn release(&self) {
        if let (Subpartition::Blocking(blocking), Some(listener)) =
            (self.subpartition(), self.listener.lock().take())
        {
            blocking.disconnect(&listener);
        }
        self.partition.on_consumed(self.index);
    }
}
