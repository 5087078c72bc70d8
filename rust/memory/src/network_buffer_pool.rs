//! All network memory of one worker, and the promises of it.
//!
//! # Locks
//!
//! 1. `factory`: the registered pools and the number of segments required by them.
//! 2. the lock of a local pool.
//! 3. `free`: the free segments.
//!
//! They are taken only in this order.  Requesting and recycling never take `factory`.  Signals are
//! completed and callbacks run without any lock.
//!
//! # Promises
//!
//! A pool's minimum and a channel's exclusive segments are promised.  The free list counts the
//! promised segments that their owners have not yet taken, and gives none of these to anybody else:
//! not to a pool that grows beyond its minimum, and not as overdraft.  The sizes that
//! redistribution sets would suffice for this, were it not for the overdraft beyond them: one
//! partition's long record must not deprive another one of its minimum.

use std::fmt;
use std::time::Duration;

use crate::availability::{AvailabilityFuture, Wakeups};
use crate::error::PoolError;
use crate::free_segments::{Claim, FreeSegments, Signals, complete};
use crate::local_buffer_pool::LocalBufferPool;
use crate::local_pool_inner::LocalPoolInner;
use crate::local_pool_options::LocalPoolOptions;
use crate::pooled_segment::PooledSegment;
use crate::redistribution::{PoolBounds, redistribute};
use crate::region::SegmentRegion;
use crate::shared_memory::SharedMemory;
use crate::short_lock::ShortLock;
use crate::slot::{Recycler, SegmentSlot, SlotArray, SlotRef};
use crate::sync::{Arc, Deadline, Mutex, lock};

/// Longest single wait of a blocking request, and so its delay in noticing a stop.
const WAIT_SLICE: Duration = Duration::from_millis(200);

/// Default timeout of a request for exclusive segments.
pub const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_millis(30_000);

/// The network memory of a worker: `n` segments of one size in one region.
pub struct NetworkBufferPool {
    /// The headers of all segments; their addresses never change.
    pub(crate) slots: SlotArray,
    segment_size: usize,
    request_timeout: Duration,
    pub(crate) factory: Mutex<Factory>,
    free: ShortLock<FreeSegments>,
}

pub(crate) struct Factory {
    /// Every registered local pool, in the order of creation.
    pub(crate) pools: Vec<Arc<LocalPoolInner>>,
    /// Promised segments: the minima of the pools and the unpooled segments.
    pub(crate) required: usize,
    destroyed: bool,
    /// The usage in percent that was last reported, see [`NetworkBufferPool::usage_message`].
    pub(crate) reported_usage: Option<usize>,
}

impl NetworkBufferPool {
    /// Allocates `number_of_segments` segments of `segment_size` bytes.
    ///
    /// # Errors
    ///
    /// [`PoolError::OutOfMemory`] if they cannot be allocated; [`PoolError::InvalidArgument`] for a
    /// size or a timeout of zero.
    pub fn new(
        number_of_segments: usize,
        segment_size: usize,
        request_timeout: Duration,
    ) -> Result<Arc<Self>, PoolError> {
        Self::with_memory(number_of_segments, segment_size, request_timeout, |size| {
            let region = SegmentRegion::allocate(number_of_segments, size);
            region.ok_or_else(|| out_of_memory(number_of_segments, size))
        })
    }

    /// Like [`new`](Self::new), in memory that other processes of this host can read.
    ///
    /// # Errors
    ///
    /// See [`new`](Self::new); [`PoolError::NotShared`] if the system refuses such memory.
    pub fn new_shared(
        number_of_segments: usize,
        segment_size: usize,
        request_timeout: Duration,
    ) -> Result<Arc<Self>, PoolError> {
        Self::with_memory(number_of_segments, segment_size, request_timeout, |size| {
            SegmentRegion::share(number_of_segments, size)
                .map_err(|error| PoolError::NotShared(error.to_string()))
        })
    }

    fn with_memory(
        number_of_segments: usize,
        segment_size: usize,
        request_timeout: Duration,
        allocate: impl FnOnce(u32) -> Result<SegmentRegion, PoolError>,
    ) -> Result<Arc<Self>, PoolError> {
        if request_timeout.is_zero() {
            return Err(PoolError::InvalidArgument(
                "the timeout for requesting network buffers must be positive".to_owned(),
            ));
        }
        let size = u32::try_from(segment_size)
            .ok()
            .filter(|&size| size > 0 && size <= i32::MAX as u32)
            .ok_or_else(|| {
                PoolError::InvalidArgument(format!(
                    "a segment of {segment_size} bytes is not between 1 and 2147483647 bytes"
                ))
            })?;
        let region = allocate(size)?;
        let slots = slots_of(&region, number_of_segments, size)?;
        let segments: Vec<SlotRef> = slots.refs().rev().collect();
        Ok(Arc::new(Self {
            slots,
            segment_size,
            request_timeout,
            factory: Mutex::new(Factory {
                pools: Vec::new(),
                required: 0,
                destroyed: false,
                reported_usage: None,
            }),
            free: ShortLock::new(FreeSegments::new(segments, region)),
        }))
    }

    /// Returns the number of bytes of a segment.
    #[must_use]
    pub fn segment_size(&self) -> usize {
        self.segment_size
    }

    /// Returns the memory of all segments, if other processes can read it and the pool still has
    /// it.
    #[must_use]
    pub fn shared_memory(&self) -> Option<Arc<SharedMemory>> {
        self.free.lock().shared_memory()
    }

    /// Returns the number of segments of the pool; 0 once it is destroyed.
    #[must_use]
    pub fn total_segments(&self) -> usize {
        if self.is_destroyed() {
            0
        } else {
            self.slots.len()
        }
    }

    /// Returns the number of free segments.
    #[must_use]
    pub fn available_segments(&self) -> usize {
        self.free.lock().segments.len()
    }

    /// Returns the number of segments in use.
    #[must_use]
    pub fn used_segments(&self) -> usize {
        self.total_segments()
            .saturating_sub(self.available_segments())
    }

    /// Returns the number of segments promised to pools and channels, used or not.
    #[must_use]
    pub fn required_segments(&self) -> usize {
        lock(&self.factory).required
    }

    /// Returns the number of promised segments that are not yet taken.
    #[must_use]
    pub fn owed_segments(&self) -> usize {
        self.free.lock().owed
    }

    /// Returns the number of registered local pools.
    #[must_use]
    pub fn registered_pools(&self) -> usize {
        lock(&self.factory).pools.len()
    }

    /// Returns whether [`destroy`](Self::destroy) was called.
    #[must_use]
    pub fn is_destroyed(&self) -> bool {
        self.free.lock().destroyed
    }

    /// Returns whether a segment is free right now.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.free.lock().availability.is_available()
    }

    /// Returns the future that completes when a segment is free.
    #[must_use]
    pub fn availability(&self) -> AvailabilityFuture {
        self.free.lock().availability.future()
    }

    /// Creates a local pool, which gets its minimum and a share of the excess.
    ///
    /// # Errors
    ///
    /// [`PoolError::Insufficient`] if the minimum cannot be promised;
    /// [`PoolError::NetworkPoolDestroyed`]; [`PoolError::InvalidArgument`] for contradictory bounds.
    pub fn create_buffer_pool(
        self: &Arc<Self>,
        options: LocalPoolOptions,
    ) -> Result<Arc<LocalBufferPool>, PoolError> {
        options.validate()?;
        let (pool, wakeups) = {
            let mut factory = lock(&self.factory);
            self.promise(&mut factory, options.min_segments)?;
            let pool = LocalPoolInner::new(Arc::clone(self), options);
            factory.pools.push(Arc::clone(&pool));
            let mut wakeups = self.redistribute(&mut factory);
            // The pool tries to hold one segment from the start.
            pool.check_availability_now(&mut wakeups);
            (pool, wakeups)
        };
        wakeups.run();
        Ok(Arc::new(LocalBufferPool::new(pool)))
    }

    /// Takes `count` exclusive segments, waiting for promised ones that others still hold.
    ///
    /// # Errors
    ///
    /// [`PoolError::Insufficient`] if they cannot be promised; [`PoolError::Timeout`];
    /// [`PoolError::NetworkPoolDestroyed`], also while waiting.  A failure keeps no segments.
    pub fn request_unpooled_memory_segments(
        self: &Arc<Self>,
        count: usize,
    ) -> Result<Vec<PooledSegment>, PoolError> {
        self.request_unpooled_memory_segments_while(count, &mut || true)
    }

    /// Like [`request_unpooled_memory_segments`](Self::request_unpooled_memory_segments), but only
    /// while `go_on` returns true; it is called several times a second.
    ///
    /// # Errors
    ///
    /// Also [`PoolError::Interrupted`] if it returns false.
    pub fn request_unpooled_memory_segments_while(
        self: &Arc<Self>,
        count: usize,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<PooledSegment>, PoolError> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let wakeups = {
            let mut factory = lock(&self.factory);
            self.promise(&mut factory, count)?;
            self.redistribute(&mut factory)
        };
        wakeups.run();
        match self.collect_segments(count, Claim::Promised, go_on) {
            Ok(slots) => Ok(slots
                .into_iter()
                .map(|slot| PooledSegment::new(slot, Arc::clone(self)))
                .collect()),
            Err((collected, error)) => {
                self.settle(count - collected.len());
                self.give_back(&collected, count);
                Err(error)
            }
        }
    }

    /// Returns segments of [`request_unpooled_memory_segments`](Self::request_unpooled_memory_segments).
    ///
    /// Dropping them one by one does the same, but redistributes after each.
    pub fn recycle_unpooled_memory_segments(self: &Arc<Self>, segments: Vec<PooledSegment>) {
        let mut slots = Vec::with_capacity(segments.len());
        for segment in segments {
            if Arc::ptr_eq(&segment.pool, self) {
                slots.push(segment.into_parts().0);
            }
            // A segment of another pool returns there when it is dropped here.
        }
        self.return_unpooled(&slots);
    }

    /// Stops issuing segments; the memory is freed when the last one has returned.
    pub fn destroy(&self) {
        lock(&self.factory).destroyed = true;
        let (region, signals) = {
            let mut free = self.free.lock();
            free.destroyed = true;
            let segments = std::mem::take(&mut free.segments);
            let region = free.count_returned(segments.len(), self.slots.len());
            (region, free.refresh())
        };
        drop(region);
        complete(signals);
    }

    /// Destroys every local pool lazily.
    ///
    /// # Errors
    ///
    /// [`PoolError::PoolsRemain`] if pools were created meanwhile, or exclusive segments are in
    /// use.
    pub fn destroy_all_buffer_pools(&self) -> Result<(), PoolError> {
        let pools = lock(&self.factory).pools.clone();
        for pool in pools {
            pool.lazy_destroy();
        }
        match (self.registered_pools(), self.required_segments()) {
            (0, 0) => Ok(()),
            (pools, segments) => Err(PoolError::PoolsRemain { pools, segments }),
        }
    }

    /// Returns a free segment for a local pool, or `None`.
    #[inline]
    pub(crate) fn request_pooled(&self, claim: Claim) -> Option<SlotRef> {
        self.free.lock().take(claim)
    }

    /// Returns a free segment for a local pool, or the future to wait for.
    pub(crate) fn request_pooled_or_future(
        &self,
        claim: Claim,
    ) -> Result<SlotRef, AvailabilityFuture> {
        let mut free = self.free.lock();
        free.take(claim).ok_or_else(|| match claim {
            Claim::Surplus => free.surplus.future(),
            Claim::Promised | Claim::Reserved => free.availability.future(),
        })
    }

    /// Stops owing `count` segments: they were taken, or the promise has ended.
    pub(crate) fn settle(&self, count: usize) {
        complete(self.settle_quietly(count));
    }

    /// Like [`settle`](Self::settle), for callers that hold a lock.
    #[must_use]
    fn settle_quietly(&self, count: usize) -> Signals {
        let mut free = self.free.lock();
        free.owed -= count;
        free.refresh()
    }

    /// Takes up to `count` segments, waiting for each; an error includes those collected.
    pub(crate) fn collect_segments(
        &self,
        count: usize,
        claim: Claim,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<SlotRef>, (Vec<SlotRef>, PoolError)> {
        let deadline = Deadline::after(Some(self.request_timeout));
        let mut collected = Vec::with_capacity(count);
        while collected.len() < count {
            if self.is_destroyed() {
                return Err((collected, PoolError::NetworkPoolDestroyed));
            }
            match self.request_pooled_or_future(claim) {
                Ok(slot) => collected.push(slot),
                Err(future) => {
                    let left = deadline.remaining().unwrap_or(Duration::ZERO);
                    if left.is_zero() {
                        let error = PoolError::Timeout {
                            timeout: self.request_timeout,
                        };
                        return Err((collected, error));
                    }
                    // Woken or not, the loop checks again.
                    let _ = future.wait(Some(left.min(WAIT_SLICE)));
                    if !go_on() {
                        return Err((collected, PoolError::Interrupted));
                    }
                }
            }
        }
        Ok(collected)
    }

    /// Takes back segments from a local pool.  No pool's lock may be held.
    pub(crate) fn recycle_pooled(&self, slot: SlotRef) {
        // Dropping the recycler may drop its pool, so it happens after the last use of the slot.
        // SAFETY: the caller owns the slot alone.
        let recycler = unsafe { slot.replace_recycler(Recycler::Idle) };
        self.put_back(&[slot]);
        drop(recycler);
    }

    /// Puts idle slots back into the free list.
    fn put_back(&self, slots: &[SlotRef]) {
        if slots.is_empty() {
            return;
        }
        let signals = {
            let mut free = self.free.lock();
            if free.destroyed {
                let region = free.count_returned(slots.len(), self.slots.len());
                drop(free);
                drop(region);
                return;
            }
            free.segments.extend_from_slice(slots);
            free.refresh()
        };
        complete(signals);
    }

    pub(crate) fn return_unpooled(&self, slots: &[SlotRef]) {
        if !slots.is_empty() {
            self.give_back(slots, slots.len());
        }
    }

    /// Puts `slots` back and ends the promise of `promised` segments.
    fn give_back(&self, slots: &[SlotRef], promised: usize) {
        self.put_back(slots);
        let wakeups = {
            let mut factory = lock(&self.factory);
            factory.required -= promised;
            self.redistribute(&mut factory)
        };
        wakeups.run();
    }

    /// Removes a local pool that was destroyed before it had taken `owed` of its minimum.
    pub(crate) fn unregister(&self, pool: &LocalPoolInner, owed: usize) {
        let wakeups = {
            let mut factory = lock(&self.factory);
            let before = factory.pools.len();
            factory
                .pools
                .retain(|other| !std::ptr::eq(Arc::as_ptr(other), pool));
            if factory.pools.len() == before {
                return;
            }
            factory.required -= pool.options().min_segments;
            let signals = self.settle_quietly(owed);
            let mut wakeups = self.redistribute(&mut factory);
            for signal in signals {
                wakeups.push_signal(signal);
            }
            wakeups
        };
        wakeups.run();
    }

    /// Promises `count` more segments.
    fn promise(&self, factory: &mut Factory, count: usize) -> Result<(), PoolError> {
        if factory.destroyed {
            return Err(PoolError::NetworkPoolDestroyed);
        }
        let total = self.slots.len();
        let available = total - factory.required;
        if count > available {
            return Err(PoolError::Insufficient {
                required: count,
                available,
                total,
                segment_size: self.segment_size,
            });
        }
        factory.required += count;
        let mut free = self.free.lock();
        free.owed += count;
        let nobody = free.refresh();
        debug_assert!(nobody.iter().all(Option::is_none));
        Ok(())
    }

    /// Resizes the local pools to the result of [`redistribute`].
    fn redistribute(&self, factory: &mut Factory) -> Wakeups {
        let mut wakeups = Wakeups::default();
        if factory.destroyed {
            return wakeups;
        }
        let bounds: Vec<PoolBounds> = factory
            .pools
            .iter()
            .map(|pool| PoolBounds {
                min: pool.options().min_segments,
                max: pool.options().max_segments,
            })
            .collect();
        let sizes = redistribute(self.slots.len() - factory.required, &bounds);
        for (pool, size) in factory.pools.iter().zip(sizes) {
            if let Some(size) = size {
                pool.resize(size, &mut wakeups);
            }
        }
        wakeups
    }
}

impl fmt::Debug for NetworkBufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetworkBufferPool")
            .field("total_segments", &self.total_segments())
            .field("available_segments", &self.available_segments())
            .field("segment_size", &self.segment_size)
            .finish_non_exhaustive()
    }
}

fn out_of_memory(count: usize, size: u32) -> PoolError {
    let mib = count.saturating_mul(size as usize) >> 20;
    PoolError::OutOfMemory {
        required_mib: mib,
        allocated_mib: 0,
        missing_mib: mib,
    }
}

fn slots_of(region: &SegmentRegion, count: usize, size: u32) -> Result<SlotArray, PoolError> {
    let mut slots = Vec::new();
    slots
        .try_reserve_exact(count)
        .map_err(|_| out_of_memory(count, size))?;
    slots.extend((0..count).map(|index| SegmentSlot::pooled(region.segment(index), size)));
    Ok(SlotArray::new(slots))
}
