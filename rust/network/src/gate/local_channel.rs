//! A channel whose producer runs in the same executor; it reads the subpartition directly.

use std::sync::OnceLock;
use std::time::Instant;

use penstock_memory::DataType;

use super::input_channel::Polled;
use super::persister::ChannelStatePersister;
use super::single::SingleInputGate;
use crate::environment::EnvironmentCore;
use crate::error::{Error, Result};
use crate::partition::{
    AvailabilityListener, Listener, PartitionShared, Released, SubpartitionView, Wakeups,
};
use crate::sync::{Arc, AtomicBool, Mutex, Ordering, Weak};
use crate::wire::PartitionId;

/// Data of the channel for a checkpoint; only the channel's reader uses it.
#[derive(Debug, Default)]
struct Persisted {
    persister: ChannelStatePersister,
    /// Buffers read before its barrier arrived.
    kept: Vec<Vec<u8>>,
}

/// A local input channel.
#[derive(Debug)]
pub(crate) struct LocalInputChannel {
    gate: Weak<SingleInputGate>,
    /// Index in its gate.
    index: usize,
    partition_id: PartitionId,
    subpartition: usize,
    /// The view, once the partition is registered.
    view: OnceLock<SubpartitionView>,
    released: AtomicBool,
    persister: Mutex<Persisted>,
    /// True if the persister needs data, which saves its lock for every buffer.
    persisting: AtomicBool,
    this: Weak<Self>,
}

impl LocalInputChannel {
    pub(crate) fn new(
        gate: Weak<SingleInputGate>,
        index: usize,
        partition_id: PartitionId,
        subpartition: usize,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            gate,
            index,
            partition_id,
            subpartition,
            view: OnceLock::new(),
            released: AtomicBool::new(false),
            persister: Mutex::default(),
            persisting: AtomicBool::new(false),
            this: Weak::clone(this),
        })
    }

    /// Attaches to the partition now, or when it is registered.
    pub(crate) fn request(&self, environment: &EnvironmentCore) {
        let Some(this) = self.this.upgrade() else {
            return;
        };
        let deadline = Instant::now() + environment.config().partition_request_timeout;
        let found = environment
            .manager()
            .find_or_wait(&self.partition_id, deadline, || Listener::Local(this));
        match found {
            Some(partition) => self.attach(partition),
            // The I/O thread watches the deadlines of listeners.
            None => environment.transport().wake(),
        }
    }

    /// Attaches to the registered partition.
    pub(crate) fn attach(&self, partition: Arc<PartitionShared>) {
        let Some(this) = self.this.upgrade() else {
            return;
        };
        match SubpartitionView::new(partition, self.subpartition) {
            // The view may notify at once, so it must be known before it connects.
            Ok(view) => {
                if self.view.set(view).is_err() {
                    return;
                }
            }
            Err(error) => return self.fail(error),
        }
        let Some(view) = self.view.get() else {
            return;
        };
        if let Err(error) = view.connect(this) {
            self.fail(error);
        } else if self.released.load(Ordering::Acquire) {
            view.release();
        }
    }

    /// Fails the channel, as the partition was not registered in time.
    pub(crate) fn not_found(&self) {
        self.fail(Error::PartitionNotFound(format!(
            "local partition {} was not registered in time",
            crate::hex(&self.partition_id)
        )));
    }

    fn fail(&self, error: Error) {
        if let Some(gate) = self.gate.upgrade() {
            gate.on_error(error);
        }
    }

    pub(crate) fn poll(&self) -> Result<Option<Polled>> {
        if self.released.load(Ordering::Acquire) {
            return Ok(None);
        }
        let Some(view) = self.view.get() else {
            return Ok(None);
        };
        if let Some(next) = view.poll()? {
            if next.buffer.data_type().is_event() || self.persisting.load(Ordering::Relaxed) {
                // The producer stores the data that its barrier overtakes: this channel has none.
                let Persisted { persister, kept } = &mut *self.persister.lock();
                persister.on_arrival(&next.buffer, || 0);
                if persister.on_taken(&next.buffer) {
                    kept.push(next.buffer.to_vec());
                }
                self.persisting
                    .store(persister.is_persisting(), Ordering::Relaxed);
            }
            let more = next.next_type != DataType::None;
            return Ok(Some(Polled {
                buffer: next.buffer,
                more,
            }));
        }
        match view.released() {
            None => Ok(None),
            Some(Released::Failed(cause)) => Err(Error::ProducerFailed(cause)),
            Some(Released::Released) => Err(Error::CancelTask(
                "the consumed partition was released".into(),
            )),
        }
    }

    pub(crate) fn resume_consumption(&self) -> Result<()> {
        if self.released.load(Ordering::Acquire) {
            return Ok(());
        }
        let Some(view) = self.view.get() else {
            return Err(Error::IllegalState(
                "the channel has no partition yet".into(),
            ));
        };
        view.resume_consumption()?;
        if view.is_available(true) {
            self.notify_data_available();
        }
        Ok(())
    }

    /// Starts copying the data of an unaligned checkpoint.
    ///
    /// # Errors
    /// `IllegalState` if a later checkpoint's barrier was taken.
    pub(crate) fn start_persisting(&self, checkpoint: i64) -> Result<()> {
        let Persisted { persister, kept } = &mut *self.persister.lock();
        let started = persister.start(checkpoint, 0);
        kept.clear();
        self.persisting
            .store(persister.is_persisting(), Ordering::Relaxed);
        started
    }

    /// Stops copying for a checkpoint and earlier ones.
    pub(crate) fn stop_persisting(&self, checkpoint: i64) {
        let Persisted { persister, kept } = &mut *self.persister.lock();
        if persister.stop(checkpoint) {
            kept.clear();
        }
        self.persisting
            .store(persister.is_persisting(), Ordering::Relaxed);
    }

    /// Returns the buffers copied since the last call, and whether they are complete.
    pub(crate) fn take_persisted(&self) -> (Vec<Vec<u8>>, bool) {
        let Persisted { persister, kept } = &mut *self.persister.lock();
        let (_, complete) = persister.take();
        (std::mem::take(kept), complete)
    }

    /// Returns whether an event that overtakes data comes next.
    pub(crate) fn has_priority(&self) -> bool {
        !self.released.load(Ordering::Acquire)
            && self.view.get().is_some_and(SubpartitionView::has_priority)
    }

    /// Returns the number of buffers between the producer and this reader.
    pub(crate) fn buffers_in_use(&self) -> usize {
        if self.released.load(Ordering::Acquire) {
            return 0;
        }
        self.view.get().map_or(0, SubpartitionView::queued)
    }

    /// Announces the size of its next buffers to the producer.
    pub(crate) fn announce_buffer_size(&self, bytes: u32) {
        if !self.released.load(Ordering::Acquire)
            && let Some(view) = self.view.get()
        {
            view.set_desired_buffer_size(bytes as usize);
        }
    }

    pub(crate) fn send_task_event(&self, event: Vec<u8>, environment: &EnvironmentCore) {
        let manager = environment.manager();
        if let Err(error) = manager.publish_task_event(&self.partition_id, event) {
            self.fail(error);
        }
    }

    pub(crate) fn release(&self, environment: &EnvironmentCore) {
        if self.released.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(view) = self.view.get() {
            view.release();
        } else {
            let this = std::ptr::from_ref(self);
            environment.manager().forget(|listener| match listener {
                Listener::Local(channel) => std::ptr::eq(Arc::as_ptr(channel), this),
                Listener::Remote { .. } => false,
            });
        }
    }
}

impl AvailabilityListener for LocalInputChannel {
    fn notify_data_available(&self) {
        if let Some(gate) = self.gate.upgrade() {
            gate.notify(self.index, false);
        }
    }

    fn notify_priority_event(&self) {
        if let Some(gate) = self.gate.upgrade() {
            gate.notify(self.index, true);
        }
    }

    fn notify_barrier(&self, event: &[u8]) {
        if let Some(gate) = self.gate.upgrade()
            && gate.enqueue_barrier(self.index, event)
        {
            gate.announce();
        }
    }

    fn notify_barrier_later(&self, event: &[u8], _wakeups: &mut Wakeups) {
        self.notify_barrier(event);
    }
}
