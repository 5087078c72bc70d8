//! What the writer, the readers and the flusher of one partition share.

use std::time::{Duration, Instant};

use penstock_memory::LocalBufferPool;

use super::subpartition::{PipelinedSubpartition, Released};
use crate::sync::{Arc, AtomicU8, Condvar, Mutex, Ordering};
use crate::wire::PartitionId;

/// The part of a result partition that is reachable from several threads.
#[derive(Debug)]
pub(crate) struct PartitionShared {
    pub(crate) id: PartitionId,
    pub(crate) subpartitions: Vec<PipelinedSubpartition>,
    pub(crate) pool: Arc<LocalBufferPool>,
    /// One byte per subpartition and a last one for the broadcast builder; the writer stores 1
    /// after publishing bytes, the flusher swaps in 0 before it flushes.
    dirty: Box<[AtomicU8]>,
    /// Which subpartitions have been consumed or released.
    consumed: Mutex<Consumed>,
    all_consumed: Condvar,
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
    ) -> Self {
        Self {
            id,
            subpartitions: (0..num_subpartitions)
                .map(|_| PipelinedSubpartition::new(segment_bytes))
                .collect(),
            pool,
            dirty: (0..=num_subpartitions).map(|_| AtomicU8::new(0)).collect(),
            consumed: Mutex::new(Consumed {
                done: vec![false; num_subpartitions],
                left: num_subpartitions,
            }),
            all_consumed: Condvar::new(),
        }
    }

    /// The dirty byte of a subpartition, or of the broadcast builder.
    pub(crate) fn dirty(&self, subpartition: Option<usize>) -> &AtomicU8 {
        &self.dirty[subpartition.unwrap_or(self.subpartitions.len())]
    }

    /// Flushes the subpartitions whose dirty byte is set.
    pub(crate) fn flush_dirty(&self) {
        if self.dirty(None).load(Ordering::Relaxed) != 0 {
            self.flush_all();
            return;
        }
        for (subpartition, dirty) in self.subpartitions.iter().zip(&self.dirty) {
            // The plain load keeps an idle scan from taking the writer's cache lines.
            if dirty.load(Ordering::Relaxed) != 0 {
                dirty.swap(0, Ordering::AcqRel);
                subpartition.flush();
            }
        }
    }

    /// Flushes every subpartition.
    pub(crate) fn flush_all(&self) {
        for dirty in &self.dirty {
            dirty.swap(0, Ordering::AcqRel);
        }
        for subpartition in &self.subpartitions {
            subpartition.flush();
        }
    }

    /// Flushes one subpartition.
    pub(crate) fn flush(&self, subpartition: usize) {
        self.dirty[subpartition].swap(0, Ordering::AcqRel);
        self.subpartitions[subpartition].flush();
    }

    /// Ends every subpartition early and wakes a writer that waits for a buffer.
    pub(crate) fn release(&self, why: &Released) {
        for subpartition in &self.subpartitions {
            subpartition.release(why.clone());
        }
        self.pool.lazy_destroy();
        let mut consumed = self.consumed.lock();
        consumed.left = 0;
        drop(consumed);
        self.all_consumed.notify_all();
    }

    /// The reader of `subpartition` has taken everything it ever will.
    pub(crate) fn on_consumed(&self, subpartition: usize) {
        self.subpartitions[subpartition].release(Released::Released);
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

    /// Waits until every reader is done; false when `timeout` passed before.
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
