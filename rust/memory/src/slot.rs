//! The header of a segment in circulation: its memory, its reference count, its recycler.
//!
//! Requesting and recycling a buffer must not allocate, so everything that a buffer needs lives in
//! one preallocated header per segment and a handle is a pointer to it.
//!
//! # Ownership of a slot
//!
//! 1. *Idle*: in the free list of the network pool or in the deque of a local pool.  The list's lock
//!    protects every field; `refs` is 0.
//! 2. *Held*: a [`PooledSegment`](crate::PooledSegment) owns it alone; `refs` is 0.
//! 3. *Counted*: `refs` handles exist.  `recycler` and `channel` are not written; the bytes above
//!    the published position belong to the one writer, the bytes below it to everyone, read only.
//!    The holder of the only handle may take exclusive ownership of the slot for a while.
//! 4. The handle that takes `refs` to 0 owns the slot alone again and passes it to `recycler`.

use std::cell::UnsafeCell;
use std::fmt;
use std::ptr::NonNull;
// Not that of `sync`: `read_elsewhere` orders nothing.
use std::sync::atomic::AtomicU32 as Hint;

use crate::free_segments::Claim;
use crate::local_pool_inner::LocalPoolInner;
use crate::network_buffer_pool::NetworkBufferPool;
use crate::pooled_segment::{BufferRecycler, PooledSegment};
use crate::position_marker::PositionMarker;
use crate::sync::{Arc, AtomicU32, Ordering, fence};

/// The channel of a slot that counts against no channel's quota.
pub(crate) const NO_CHANNEL: u32 = u32::MAX;

/// Fewer bytes are not worth a separate pass.
const MIN_CLAIMED_BYTES: u32 = 4 << 10;

/// Destination of a slot whose last handle is dropped.
pub(crate) enum Recycler {
    /// None: the slot is idle in the network pool.
    Idle,
    /// The memory belongs to this buffer alone: header and memory are freed.
    Freeing,
    /// The local pool that it was requested from.
    Local(Arc<LocalPoolInner>),
    /// The network pool: its local pool has another segment instead.
    Network(Arc<NetworkBufferPool>),
    /// The owner of an exclusive segment.
    Exclusive(Arc<dyn BufferRecycler>, Arc<NetworkBufferPool>),
}

/// The header of one segment.
#[repr(align(64))]
pub(crate) struct SegmentSlot {
    /// Number of handles.
    refs: AtomicU32,
    /// Position of the segment's builder.
    marker: PositionMarker,
    /// The memory: a slice of the network pool's region, or a separate box.
    data: NonNull<u8>,
    /// Bytes of the memory.
    capacity: u32,
    /// The subpartition whose quota the segment counts against.
    channel: UnsafeCell<u32>,
    /// Number of leading bytes that another core has read since a builder last began here.
    read_elsewhere: Hint,
    recycler: UnsafeCell<Recycler>,
}

// SAFETY: the rules of ownership above give one thread at a time write access to the cells.
unsafe impl Send for SegmentSlot {}
// SAFETY: as above; shared access reads only what nobody writes meanwhile.
unsafe impl Sync for SegmentSlot {}

impl SegmentSlot {
    /// Creates an idle slot of a network pool, whose region has `capacity` bytes at `data`.
    pub(crate) fn pooled(data: NonNull<u8>, capacity: u32) -> Self {
        Self::with_memory(data, capacity, Recycler::Idle)
    }

    fn with_memory(data: NonNull<u8>, capacity: u32, recycler: Recycler) -> Self {
        Self {
            refs: AtomicU32::new(0),
            marker: PositionMarker::new(),
            data,
            capacity,
            channel: UnsafeCell::new(NO_CHANNEL),
            read_elsewhere: Hint::new(0),
            recycler: UnsafeCell::new(recycler),
        }
    }
}

impl Drop for SegmentSlot {
    fn drop(&mut self) {
        // The memory of a pooled slot belongs to its pool's region.
        if matches!(self.recycler.get_mut(), Recycler::Freeing) {
            let bytes = NonNull::slice_from_raw_parts(self.data, self.capacity as usize);
            // SAFETY: `SlotRef::from_bytes` took exactly these bytes out of a box.
            drop(unsafe { Box::from_raw(bytes.as_ptr()) });
        }
    }
}

/// The headers of a network pool's segments, at fixed addresses.
///
/// The array owns them through a pointer: moving a box would invalidate the pointers to them.
pub(crate) struct SlotArray(NonNull<[SegmentSlot]>);

// SAFETY: it is used like a box of slots.
unsafe impl Send for SlotArray {}
// SAFETY: as above.
unsafe impl Sync for SlotArray {}

impl SlotArray {
    pub(crate) fn new(slots: Vec<SegmentSlot>) -> Self {
        Self(NonNull::from(Box::leak(slots.into_boxed_slice())))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns pointers to all slots; the array must outlive every one in circulation.
    pub(crate) fn refs(&self) -> impl DoubleEndedIterator<Item = SlotRef> {
        let first = self.0.cast::<SegmentSlot>();
        (0..self.len()).map(move |index| {
            // SAFETY: the index lies in the array.
            SlotRef(unsafe { first.add(index) })
        })
    }
}

impl Drop for SlotArray {
    fn drop(&mut self) {
        // SAFETY: `new` took the array out of a box, and nobody has a slot any more.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// A pointer to a slot.  Copying it counts nothing: its holders follow the rules of ownership.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotRef(NonNull<SegmentSlot>);

// SAFETY: a slot may be used from any thread that the rules of ownership allow.
unsafe impl Send for SlotRef {}
// SAFETY: as above.
unsafe impl Sync for SlotRef {}

impl fmt::Debug for SlotRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotRef")
            .field("capacity", &self.slot().capacity)
            .field("refs", &self.refs())
            .finish()
    }
}

impl SlotRef {
    /// Creates a counted slot, with one handle, from bytes outside of any pool.
    pub(crate) fn from_bytes(bytes: Box<[u8]>) -> Self {
        let capacity = u32::try_from(bytes.len()).expect("a buffer is smaller than 4 GiB");
        let data = NonNull::from(Box::leak(bytes)).cast::<u8>();
        let slot = Box::new(SegmentSlot::with_memory(data, capacity, Recycler::Freeing));
        slot.refs.store(1, Ordering::Relaxed);
        Self(NonNull::from(Box::leak(slot)))
    }

    #[inline]
    fn slot(&self) -> &SegmentSlot {
        // SAFETY: the pool, or the box, of a slot lives until its last holder lets go of it.
        unsafe { self.0.as_ref() }
    }

    /// Returns the first byte of the memory.
    #[inline]
    pub(crate) fn data(&self) -> *mut u8 {
        self.slot().data.as_ptr()
    }

    #[inline]
    pub(crate) fn capacity(&self) -> u32 {
        self.slot().capacity
    }

    #[inline]
    pub(crate) fn marker(&self) -> &PositionMarker {
        &self.slot().marker
    }

    /// Notes that another core is about to read the bytes before `end`.
    pub(crate) fn note_read_elsewhere(&self, end: u32) {
        self.slot().read_elsewhere.fetch_max(end, Ordering::Relaxed);
    }

    /// Fetches the memory into the cache of this core, if another one has read it.
    ///
    /// A long fill takes the cache lines over without reading them, many at a time.  Single records
    /// would wait for each line: half as fast between distant cores.
    ///
    /// # Safety
    ///
    /// No other code holds any of the bytes.
    #[inline]
    pub(crate) unsafe fn claim(&self) {
        let hint = &self.slot().read_elsewhere;
        if hint.load(Ordering::Relaxed) > 0 {
            let bytes = hint.swap(0, Ordering::Relaxed).min(self.capacity());
            if bytes >= MIN_CLAIMED_BYTES {
                // SAFETY: so many bytes are there, and the caller says that nobody has them.
                unsafe { self.data().write_bytes(0, bytes as usize) };
            }
        }
    }

    /// Returns whether there is one handle; if it is the caller's, the effects of other handles are
    /// visible.
    #[inline]
    pub(crate) fn has_one_handle(&self) -> bool {
        self.slot().refs.load(Ordering::Acquire) == 1
    }

    #[inline]
    pub(crate) fn refs(&self) -> u32 {
        self.slot().refs.load(Ordering::Relaxed)
    }

    /// Turns a slot that the caller owns alone into a counted one with one handle.
    ///
    /// # Safety
    ///
    /// The caller owns the slot alone.
    #[inline]
    pub(crate) unsafe fn start_counting(&self, channel: u32) {
        debug_assert_eq!(self.refs(), 0);
        // SAFETY: the caller owns the slot alone.
        unsafe { *self.slot().channel.get() = channel };
        self.slot().marker.reset();
        self.slot().refs.store(1, Ordering::Relaxed);
    }

    /// Turns a counted slot with one handle back into one that the caller owns alone.
    ///
    /// # Safety
    ///
    /// The caller has the only handle and gives it up.
    pub(crate) unsafe fn stop_counting(&self) {
        debug_assert_eq!(self.refs(), 1);
        self.slot().refs.store(0, Ordering::Relaxed);
    }

    /// Replaces the recycler.
    ///
    /// # Safety
    ///
    /// The caller owns the slot alone.
    pub(crate) unsafe fn replace_recycler(&self, recycler: Recycler) -> Recycler {
        // SAFETY: the caller owns the slot alone.
        let cell = unsafe { &mut *self.slot().recycler.get() };
        std::mem::replace(cell, recycler)
    }

    /// Counts one more handle.  Only a holder of a handle may call this.
    #[inline]
    pub(crate) fn retain(&self) {
        let before = self.slot().refs.fetch_add(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a released buffer was retained");
        // Handles that are leaked in a loop must not wrap the count around to zero.
        if before > u32::MAX / 2 {
            std::process::abort();
        }
    }

    /// Counts one handle less; the last one passes the slot to its recycler.
    #[inline]
    pub(crate) fn release(self) {
        let refs = &self.slot().refs;
        // The only handle needs no read-modify-write: nobody else can be counting.
        if refs.load(Ordering::Acquire) == 1 {
            refs.store(0, Ordering::Relaxed);
        } else {
            if refs.fetch_sub(1, Ordering::Release) != 1 {
                return;
            }
            fence(Ordering::Acquire);
        }
        self.recycle();
    }

    /// Passes a slot without handles to its recycler.
    #[inline]
    fn recycle(self) {
        // SAFETY: the count is zero, so this thread owns the slot alone.
        let recycler = unsafe { &*self.slot().recycler.get() };
        if let Recycler::Local(pool) = recycler {
            let pool: *const LocalPoolInner = Arc::as_ptr(pool);
            // SAFETY: as above.
            let channel = unsafe { *self.slot().channel.get() };
            // SAFETY: the slot's recycler keeps the pool alive until the pool has the slot.
            unsafe { LocalPoolInner::recycle(pool, self, channel) };
        } else {
            self.recycle_elsewhere();
        }
    }

    #[cold]
    fn recycle_elsewhere(self) {
        // SAFETY: the count is zero, so this thread owns the slot alone.
        let cell = unsafe { &mut *self.slot().recycler.get() };
        if matches!(cell, Recycler::Freeing) {
            // SAFETY: a freeing slot is a box of its own, and this was its last handle.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
            return;
        }
        match std::mem::replace(cell, Recycler::Idle) {
            Recycler::Exclusive(owner, pool) => owner.recycle(PooledSegment::new(self, pool)),
            Recycler::Network(pool) => pool.recycle_pooled(self),
            Recycler::Idle | Recycler::Freeing | Recycler::Local(_) => {}
        }
    }

    /// Gives the slot's local pool another segment that is promised to nobody; false if there is
    /// none, or the slot has no local pool.
    ///
    /// # Safety
    ///
    /// The caller has the only handle.
    pub(crate) unsafe fn leave_local_pool(&self) -> bool {
        // SAFETY: nobody but the holder of the only handle has the slot.
        let Recycler::Local(pool) = (unsafe { &*self.slot().recycler.get() }) else {
            return false;
        };
        let Some(other) = pool.network_pool().request_pooled(Claim::Surplus) else {
            return false;
        };
        let network = Recycler::Network(Arc::clone(pool.network_pool()));
        let pool: *const LocalPoolInner = Arc::as_ptr(pool);
        // SAFETY: nobody but the holder of the only handle has the slot.
        let local = unsafe { self.replace_recycler(network) };
        // SAFETY: as above.
        let channel = std::mem::replace(unsafe { &mut *self.slot().channel.get() }, NO_CHANNEL);
        // SAFETY: the network pool has just given this slot to this thread alone.
        drop(unsafe { other.replace_recycler(local) });
        // SAFETY: the pool is that of the other slot now, which this thread owns alone.
        unsafe { LocalPoolInner::recycle(pool, other, channel) };
        true
    }
}
