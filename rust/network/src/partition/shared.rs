//! State that the writer, the readers and the flusher of one partition share.

use std::time::{Duration, Instant};

use penstock_memory::{AvailabilityFuture, BufferConsumer, LocalBufferPool, NetworkBufferPool};

use super::blocking::{BlockingSubpartition, PartitionFile};
use super::subpartition::{PipelinedSubpartition, Released};
use super::task_events::TaskEvents;
use super::wakeups::Wakeups;
use crate::error::{Error, Result};
use crate::sync::{Arc, AtomicU8, Condvar, Mutex, Ordering};
use crate::transport::{Transport, Waiting};
use crate::wire::PartitionId;

/// Number of queued buffers, including the open one, with a reader that has credit.
const AHEAD_BUFFERS: usize = 2;
/// Interval, in buffers, at which a writer that is ahead looks for credit: soon enough for a reader
/// that announces credit when half of the usual ten are spent.
const LOOK_BUFFERS: u64 = 4;

/// A queue of either kind.
#[derive(Debug)]
pub(crate) enum Subpartition {
    /// Read while it is written, once.
    Pipelined(PipelinedSubpartition),
    /// Read after it was written, any number of times.
    Blocking(BlockingSubpartition),
}

impl Subpartition {
    /// Appends a buffer and returns the wanted size of the next one, or `None` if the subpartition
    /// has ended and the buffer was dropped.
    pub(crate) fn add(&self, consumer: BufferConsumer) -> Option<usize> {
        match self {
            Self::Pipelined(pipelined) => pipelined.add(consumer),
            Self::Blocking(blocking) => blocking.add(consumer),
        }
    }

    /// Like `add`, as one of many.
    pub(crate) fn add_later(
        &self,
        consumer: BufferConsumer,
        wakeups: &mut Wakeups,
    ) -> Option<usize> {
        match self {
            Self::Pipelined(pipelined) => pipelined.add_later(consumer, wakeups),
            Self::Blocking(blocking) => blocking.add(consumer),
        }
    }

    /// Appends `EndOfPartition`; nothing can be added afterwards.
    pub(crate) fn finish(&self, wakeups: &mut Wakeups) {
        match self {
            Self::Pipelined(pipelined) => pipelined.finish(wakeups),
            Self::Blocking(blocking) => blocking.finish(),
        }
    }

    /// Makes written data available to the reader; that of a blocking one waits for its end.
    pub(crate) fn flush(&self) {
        if let Self::Pipelined(pipelined) = self {
            pipelined.flush();
        }
    }

    /// Like `flush`, as one of many.
    pub(crate) fn flush_later(&self, wakeups: &mut Wakeups) {
        if let Self::Pipelined(pipelined) = self {
            pipelined.flush_later(wakeups);
        }
    }

    /// Ends it early: all buffers are recycled and readers receive the reason.
    pub(crate) fn release(&self, why: Released) {
        match self {
            Self::Pipelined(pipelined) => pipelined.release(why),
            Self::Blocking(blocking) => blocking.release(why),
        }
    }

    /// Returns the number of elements in memory, including events.
    pub(crate) fn queued(&self) -> usize {
        match self {
            Self::Pipelined(pipelined) => pipelined.queued(),
            Self::Blocking(blocking) => blocking.queued(),
        }
    }

    /// Returns the number of buffers added and bytes polled since the start.
    pub(crate) fn totals(&self) -> (u64, u64) {
        match self {
            Self::Pipelined(pipelined) => pipelined.totals(),
            Self::Blocking(blocking) => blocking.totals(),
        }
    }
}

/// The part of a result partition that is reachable from several threads.
#[derive(Debug)]
pub(crate) struct PartitionShared {
    pub(crate) id: PartitionId,
    pub(crate) subpartitions: Vec<Subpartition>,
    /// File and pages of a blocking partition.
    stored: Option<StoredOutput>,
    pub(crate) pool: Arc<LocalBufferPool>,
    /// One byte per subpartition and a last one for the broadcast builder; the writer stores 1
    /// after publishing bytes, the flusher swaps in 0 before it flushes.
    dirty: Box<[AtomicU8]>,
    /// Events that consumers have sent to the writing task.
    pub(crate) task_events: TaskEvents,
    /// Waiting place of its writer, if readers are remote.
    writer: Mutex<Option<Arc<Waiting>>>,
    /// The subpartitions that have been consumed or released.
    consumed: Mutex<Consumed>,
    all_consumed: Condvar,
    /// Held by threads that check for timeoutable barriers and that report the leaving of one.
    barriers: Mutex<()>,
    barrier_taken: Condvar,
}

/// The file of a blocking partition and the managed memory in which its regions are sorted.
#[derive(Debug)]
pub(crate) struct StoredOutput {
    pub(crate) file: Arc<PartitionFile>,
    pub(crate) pages: Arc<NetworkBufferPool>,
}

#[derive(Debug)]
struct Consumed {
    done: Vec<bool>,
    left: usize,
}

impl PartitionShared {
    pub(crate) fn new(
        id: PartitionId,
        num_subpartitions: usize,
        segment_bytes: usize,
        pool: Arc<LocalBufferPool>,
        stored: Option<StoredOutput>,
    ) -> Self {
        let make = || match &stored {
            None => Subpartition::Pipelined(PipelinedSubpartition::new(segment_bytes)),
            Some(StoredOutput { file, .. }) => {
                Subpartition::Blocking(BlockingSubpartition::new(Arc::clone(file), segment_bytes))
            }
        };
        Self {
            id,
            subpartitions: (0..num_subpartitions).map(|_| make()).collect(),
            stored,
            pool,
            dirty: (0..=num_subpartitions).map(|_| AtomicU8::new(0)).collect(),
            task_events: TaskEvents::default(),
            writer: Mutex::new(None),
            consumed: Mutex::new(Consumed {
                done: vec![false; num_subpartitions],
                left: num_subpartitions,
            }),
            all_consumed: Condvar::new(),
            barriers: Mutex::new(()),
            barrier_taken: Condvar::new(),
        }
    }

    /// Returns the dirty byte of a subpartition, or of the broadcast builder.
    pub(crate) fn dirty(&self, subpartition: Option<usize>) -> &AtomicU8 {
        &self.dirty[subpartition.unwrap_or(self.subpartitions.len())]
    }

    /// Returns the address of a dirty byte, for a writer that sets it directly.
    #[cfg(not(feature = "loom"))]
    pub(crate) fn dirty_ptr(&self, subpartition: Option<usize>) -> *mut u8 {
        self.dirty(subpartition).as_ptr()
    }

    /// Returns a dirty byte's address under loom, where models set it through `dirty`.
    #[cfg(feature = "loom")]
    pub(crate) fn dirty_ptr(&self, _: Option<usize>) -> *mut u8 {
        std::ptr::null_mut()
    }

    /// Flushes the subpartitions whose dirty byte is set.
    pub(crate) fn flush_dirty(&self) {
        if self.dirty(None).load(Ordering::Relaxed) != 0 {
            self.flush_all();
            return;
        }
        let mut wakeups = Wakeups::default();
        for (subpartition, dirty) in self.subpartitions.iter().zip(&self.dirty) {
            // The plain load keeps an idle scan from taking the writer's cache lines.
            if dirty.load(Ordering::Relaxed) != 0 {
                dirty.swap(0, Ordering::AcqRel);
                subpartition.flush_later(&mut wakeups);
            }
        }
        wakeups.ring();
    }

    /// Flushes every subpartition.
    pub(crate) fn flush_all(&self) {
        for dirty in &self.dirty {
            dirty.swap(0, Ordering::AcqRel);
        }
        let mut wakeups = Wakeups::default();
        for subpartition in &self.subpartitions {
            subpartition.flush_later(&mut wakeups);
        }
        wakeups.ring();
    }

    /// Flushes one subpartition.
    pub(crate) fn flush(&self, subpartition: usize) {
        self.dirty[subpartition].swap(0, Ordering::AcqRel);
        self.subpartitions[subpartition].flush();
    }

    /// Returns the waiting place of the writer, once there are readers over connections of
    /// `transport`.
    ///
    /// # Errors
    /// The same as [`Waiting::remote`].
    pub(crate) fn writer_at(&self, transport: &Arc<Transport>) -> Result<Arc<Waiting>> {
        let mut writer = self.writer.lock();
        if let Some(waiting) = &*writer {
            return Ok(Arc::clone(waiting));
        }
        let waiting = Arc::new(Waiting::remote(transport)?);
        *writer = Some(Arc::clone(&waiting));
        Ok(waiting)
    }

    /// Looks for credit if the writer is ahead of the reader of a subpartition.
    pub(crate) fn look_for_credit(&self, subpartition: usize) {
        let subpartition = &self.subpartitions[subpartition];
        let (added, _) = subpartition.totals();
        if added % LOOK_BUFFERS != 0 || subpartition.queued() <= AHEAD_BUFFERS {
            return;
        }
        // It may receive a request for this partition.
        let waiting = self.writer.lock().clone();
        if let Some(waiting) = waiting {
            waiting.look();
        }
    }

    /// Waits until the pool is available or a buffer may have returned, at most until `timeout`;
    /// may return early.
    pub(crate) fn wait_for_buffers(
        &self,
        available: &AvailabilityFuture,
        timeout: Option<Duration>,
    ) {
        let writer = self.writer.lock().clone();
        match writer {
            Some(waiting) => waiting.wait_beside(available, timeout),
            None => {
                let _ = available.wait(timeout);
            }
        }
    }

    /// Waits until the pool has a buffer and no subpartition is at its quota, or the partition was
    /// released; false if the timeout passes first.
    pub(crate) fn wait_available(&self, timeout: Duration) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        let available = self.pool.availability();
        while !available.is_done() {
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return false;
            }
            self.wait_for_buffers(&available, left);
        }
        true
    }

    /// Ends every subpartition early and wakes a writer that waits for a buffer.
    pub(crate) fn release(&self, why: &Released) {
        for subpartition in &self.subpartitions {
            subpartition.release(why.clone());
        }
        self.pool.lazy_destroy();
        if let Some(stored) = &self.stored {
            stored.file.release();
            stored.pages.destroy();
        }
        self.task_events.release();
        let mut consumed = self.consumed.lock();
        consumed.left = 0;
        drop(consumed);
        self.all_consumed.notify_all();
        self.on_barrier_taken();
    }

    /// Notes that a timeoutable barrier has left its queue.
    pub(crate) fn on_barrier_taken(&self) {
        // A thread that has checked and found it present waits by now.
        drop(self.barriers.lock());
        self.barrier_taken.notify_all();
    }

    /// Waits until the timeoutable barrier of a checkpoint no longer waits for any reader; false if
    /// `timeout` passes first.
    pub(crate) fn wait_barrier_taken(&self, checkpoint: i64, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut guard = self.barriers.lock();
        let holds = |subpartition: &Subpartition| match subpartition {
            Subpartition::Pipelined(pipelined) => pipelined.holds_barrier(checkpoint),
            Subpartition::Blocking(_) => false,
        };
        while self.subpartitions.iter().any(holds) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            guard = self.barrier_taken.wait_timeout(guard, left);
        }
        true
    }

    /// Notes that the reader of `subpartition` has taken everything.
    pub(crate) fn on_consumed(&self, subpartition: usize) {
        // Data in a file can be read again.
        if let Subpartition::Pipelined(pipelined) = &self.subpartitions[subpartition] {
            pipelined.release(Released::Released);
            self.on_barrier_taken();
        }
        let mut consumed = self.consumed.lock();
        if !std::mem::replace(&mut consumed.done[subpartition], true) {
            consumed.left = consumed.left.saturating_sub(1);
        }
        let all = consumed.left == 0;
        drop(consumed);
        if all {
            self.all_consumed.notify_all();
        }
    }

    /// Returns whether it is a blocking partition.
    pub(crate) fn is_blocking(&self) -> bool {
        self.stored.is_some()
    }

    /// Returns the failed write, if any.
    pub(crate) fn write_error(&self) -> Option<Error> {
        self.stored.as_ref().and_then(|stored| stored.file.error())
    }

    /// Returns the number of regions in the file of a blocking partition, and 0 for others.
    pub(crate) fn regions_written(&self) -> u64 {
        self.stored
            .as_ref()
            .map_or(0, |stored| stored.file.regions())
    }

    /// Writes the finished pages of a blocking partition as a region of its file, one consumer after
    /// the other; does nothing for other partitions.
    pub(crate) fn write_region(&self) {
        let Some(stored) = &self.stored else {
            return;
        };
        for subpartition in &self.subpartitions {
            if let Subpartition::Blocking(blocking) = subpartition {
                blocking.place_finished();
            }
        }
        stored.file.write_region();
    }

    /// Publishes a blocking partition that is completely in its file: readers may begin, and the
    /// writer waits for nobody and needs no more buffers.
    pub(crate) fn publish(&self) {
        for subpartition in &self.subpartitions {
            if let Subpartition::Blocking(blocking) = subpartition {
                blocking.publish();
            }
        }
        self.pool.lazy_destroy();
        if let Some(stored) = &self.stored {
            stored.pages.destroy();
        }
        self.consumed.lock().left = 0;
        self.all_consumed.notify_all();
    }

    /// Waits until every reader is done; false if `timeout` passes first.
    pub(crate) fn wait_consumed(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut consumed = self.consumed.lock();
        while consumed.left > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            consumed = self.all_consumed.wait_timeout(consumed, left);
        }
        true
    }
}
