//! A segment that belongs permanently to one owner, such as an exclusive buffer of an input
//! channel.

use std::fmt;

use crate::network_buffer_pool::NetworkBufferPool;
use crate::slot::{NO_CHANNEL, Recycler, SlotRef};
use crate::sync::Arc;
use crate::unique_buffer::UniqueBuffer;

/// Receives the segments of its dropped buffers.
pub trait BufferRecycler: Send + Sync {
    /// Receives a segment whose last buffer was dropped, on the dropping thread.
    fn recycle(&self, segment: PooledSegment);
}

/// A segment of a [`NetworkBufferPool`] outside of any local pool.  Dropping it returns it.
pub struct PooledSegment {
    /// Owned alone; no handle exists.
    slot: SlotRef,
    /// Keeps the slot alive.
    pub(crate) pool: Arc<NetworkBufferPool>,
}

impl PooledSegment {
    pub(crate) fn new(slot: SlotRef, pool: Arc<NetworkBufferPool>) -> Self {
        Self { slot, pool }
    }

    /// Returns the number of bytes that fit.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.slot.capacity() as usize
    }

    /// Creates a writable buffer; `recycler` receives the segment when its last handle is dropped.
    #[must_use]
    pub fn into_buffer(self, recycler: Arc<dyn BufferRecycler>) -> UniqueBuffer {
        let (slot, pool) = self.into_parts();
        // SAFETY: a pooled segment owns its slot alone.
        drop(unsafe { slot.replace_recycler(Recycler::Exclusive(recycler, pool)) });
        // SAFETY: as above.
        unsafe { slot.start_counting(NO_CHANNEL) };
        UniqueBuffer::from_slot(slot)
    }

    pub(crate) fn into_parts(self) -> (SlotRef, Arc<NetworkBufferPool>) {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is never used nor dropped again, so the reference is moved, not doubled.
        let pool = unsafe { std::ptr::read(&raw const this.pool) };
        (this.slot, pool)
    }
}

impl Drop for PooledSegment {
    fn drop(&mut self) {
        self.pool.return_unpooled(&[self.slot]);
    }
}

impl fmt::Debug for PooledSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledSegment")
            .field("slot", &self.slot)
            .finish_non_exhaustive()
    }
}
