//! The buffers of one result partition or one input gate.
//!
//! A local pool takes segments from the [`NetworkBufferPool`] as it needs them, up to a size that
//! the network pool changes as pools come and go, and keeps the recycled ones for its next request.
//!
//! *Available* means: a segment lies ready and no subpartition is at its quota.  Neither the quota
//! nor the overdraft refuses a request; they only make the pool unavailable, so that the record in
//! progress can be finished before the task turns to something else.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use crate::availability::{AvailabilityFuture, AvailabilityHelper, Signal, Wakeups};
use crate::error::PoolError;
use crate::network_buffer_pool::NetworkBufferPool;
use crate::short_lock::{ShortGuard, ShortLock};
use crate::slot::{NO_CHANNEL, Recycler, SlotRef};
use crate::sync::{Arc, Deadline};
use crate::unique_buffer::UniqueBuffer;

/// The bounds of a [`LocalBufferPool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalPoolOptions {
    /// Segments the pool can always have.
    pub min_segments: usize,
    /// Segments the pool may have at most, overdraft apart; `usize::MAX` for no limit.
    pub max_segments: usize,
    /// Subpartitions that have a quota; 0 for none.
    pub num_subpartitions: usize,
    /// Buffers of one subpartition at which the pool becomes unavailable.
    pub max_buffers_per_channel: usize,
    /// Segments a request may take beyond the pool's size.
    pub max_overdraft: usize,
}

impl LocalPoolOptions {
    /// A pool without quotas and overdraft.
    #[must_use]
    pub const fn new(min_segments: usize, max_segments: usize) -> Self {
        Self {
            min_segments,
            max_segments,
            num_subpartitions: 0,
            max_buffers_per_channel: usize::MAX,
            max_overdraft: 0,
        }
    }

    /// The same with a quota of `max_buffers_per_channel` for each of `num_subpartitions`.
    #[must_use]
    pub const fn with_quota(
        mut self,
        num_subpartitions: usize,
        max_buffers_per_channel: usize,
    ) -> Self {
        self.num_subpartitions = num_subpartitions;
        self.max_buffers_per_channel = max_buffers_per_channel;
        self
    }

    /// The same with an overdraft of `max_overdraft` segments.
    #[must_use]
    pub const fn with_overdraft(mut self, max_overdraft: usize) -> Self {
        self.max_overdraft = max_overdraft;
        self
    }

    pub(crate) fn validate(&self) -> Result<(), PoolError> {
        let refuse = |text: String| Err(PoolError::InvalidArgument(text));
        if self.max_segments < self.min_segments {
            return refuse(format!(
                "the maximum of {} segments is less than the minimum of {}",
                self.max_segments, self.min_segments
            ));
        }
        if self.max_segments == 0 {
            return refuse("a pool needs room for at least one segment".to_owned());
        }
        if self.num_subpartitions > 0 && self.max_buffers_per_channel == 0 {
            return refuse("the buffers per channel must be positive".to_owned());
        }
        if self.num_subpartitions >= NO_CHANNEL as usize {
            return refuse(format!(
                "{} subpartitions are too many",
                self.num_subpartitions
            ));
        }
        Ok(())
    }
}

/// Waits for a buffer of a pool that has none.
pub trait BufferListener: Send + Sync {
    /// Offers a buffer; refusing gives it back for the next listener.  Called without locks.
    ///
    /// # Errors
    ///
    /// The buffer, if it is not wanted any more.
    fn on_buffer_available(&self, buffer: UniqueBuffer) -> Result<(), UniqueBuffer>;

    /// Tells that the pool is gone and no buffer will come.
    fn on_pool_destroyed(&self);
}

/// A pool of buffers with one owner.  Dropping it destroys it lazily.
pub struct LocalBufferPool {
    inner: Arc<LocalPoolInner>,
}

impl LocalBufferPool {
    pub(crate) fn new(inner: Arc<LocalPoolInner>) -> Self {
        Self { inner }
    }

    /// A buffer, or `None` if there is none right now.
    ///
    /// # Errors
    ///
    /// [`PoolError::Destroyed`].
    #[inline]
    pub fn request_buffer(&self) -> Result<Option<UniqueBuffer>, PoolError> {
        self.inner.request(NO_CHANNEL)
    }

    /// A buffer that counts against the quota of subpartition `channel`, or `None`.
    ///
    /// # Errors
    ///
    /// [`PoolError::Destroyed`].
    ///
    /// # Panics
    ///
    /// If the pool has no such subpartition.
    #[inline]
    pub fn request_buffer_for(&self, channel: usize) -> Result<Option<UniqueBuffer>, PoolError> {
        self.inner.request(self.inner.channel(channel))
    }

    /// Waits for a buffer (`timeout` `None`: until the pool is destroyed); `None` after the timeout.
    ///
    /// `channel` names the subpartition whose quota it counts against.
    ///
    /// # Errors
    ///
    /// [`PoolError::Destroyed`], also while waiting.
    ///
    /// # Panics
    ///
    /// If the pool has no such subpartition.
    pub fn request_buffer_blocking(
        &self,
        channel: Option<usize>,
        timeout: Option<Duration>,
    ) -> Result<Option<UniqueBuffer>, PoolError> {
        let channel = channel.map_or(NO_CHANNEL, |channel| self.inner.channel(channel));
        let deadline = Deadline::after(timeout);
        loop {
            if let Some(buffer) = self.inner.request(channel)? {
                return Ok(Some(buffer));
            }
            let left = deadline.remaining();
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            // Woken or not, the loop looks again.
            let _ = self.availability().wait(left);
        }
    }

    /// Whether a segment lies ready and no subpartition is at its quota.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.inner.state.lock().availability.is_available()
    }

    /// Done when the pool is available, or destroyed.
    #[must_use]
    pub fn availability(&self) -> AvailabilityFuture {
        self.inner.state.lock().availability.future()
    }

    /// Asks for one buffer by callback.  A listener is called once and then forgotten.
    ///
    /// Returns false, and keeps nothing, if a buffer can be requested now or the pool is destroyed.
    pub fn add_buffer_listener(&self, listener: Arc<dyn BufferListener>) -> bool {
        let mut state = self.inner.state.lock();
        if state.destroyed || !state.segments.is_empty() {
            return false;
        }
        state.listeners.push_back(listener);
        true
    }

    /// Changes the number of segments the pool may have, overdraft apart; above the maximum means
    /// the maximum.
    ///
    /// # Errors
    ///
    /// [`PoolError::InvalidArgument`] below the minimum.
    pub fn set_num_buffers(&self, size: usize) -> Result<(), PoolError> {
        let min = self.inner.options.min_segments;
        if size < min {
            return Err(PoolError::InvalidArgument(format!(
                "the pool needs at least {min} buffers, but its size was set to {size}"
            )));
        }
        let mut wakeups = Wakeups::default();
        self.inner.resize(size, &mut wakeups);
        wakeups.run();
        Ok(())
    }

    /// Waits until the pool holds at least `count` segments, at most its minimum.
    ///
    /// # Errors
    ///
    /// [`PoolError::InvalidArgument`] for more than the minimum; [`PoolError::Timeout`];
    /// [`PoolError::Destroyed`] and [`PoolError::NetworkPoolDestroyed`].
    pub fn reserve_segments(&self, count: usize) -> Result<(), PoolError> {
        self.inner.reserve(count)
    }

    /// Segments the pool may have now, overdraft apart.
    #[must_use]
    pub fn num_buffers(&self) -> usize {
        self.inner.state.lock().size
    }

    /// Segments the pool can always have.
    #[must_use]
    pub fn min_segments(&self) -> usize {
        self.inner.options.min_segments
    }

    /// Segments the pool may have at most, overdraft apart.
    #[must_use]
    pub fn max_segments(&self) -> usize {
        self.inner.options.max_segments
    }

    /// Segments that lie ready.
    #[must_use]
    pub fn available_segments(&self) -> usize {
        self.inner.state.lock().segments.len()
    }

    /// Segments taken from the network pool and not returned, ready ones included.
    #[must_use]
    pub fn requested_segments(&self) -> usize {
        self.inner.state.lock().requested
    }

    /// Segments in use: requested ones that do not lie ready.
    #[must_use]
    pub fn used_segments(&self) -> usize {
        let state = self.inner.state.lock();
        state.requested - state.segments.len()
    }

    /// Whether [`lazy_destroy`](Self::lazy_destroy) was called.
    #[must_use]
    pub fn is_destroyed(&self) -> bool {
        self.inner.state.lock().destroyed
    }

    /// Returns what lies ready, refuses every further request, wakes who waits.
    ///
    /// Segments in use return to the network pool as they are recycled.
    pub fn lazy_destroy(&self) {
        self.inner.lazy_destroy();
    }
}

impl Drop for LocalBufferPool {
    fn drop(&mut self) {
        self.inner.lazy_destroy();
    }
}

impl fmt::Debug for LocalBufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.inner.state.lock();
        f.debug_struct("LocalBufferPool")
            .field("options", &self.inner.options)
            .field("size", &state.size)
            .field("requested", &state.requested)
            .field("available", &state.segments.len())
            .field("listeners", &state.listeners.len())
            .field("destroyed", &state.destroyed)
            .finish_non_exhaustive()
    }
}

/// What the handle, the network pool and the segments in circulation share.
///
/// Segments that lie ready keep their reference to the pool (so that requesting one touches no
/// counter); [`lazy_destroy`](Self::lazy_destroy) breaks that circle.
pub(crate) struct LocalPoolInner {
    network_pool: Arc<NetworkBufferPool>,
    options: LocalPoolOptions,
    state: ShortLock<PoolState>,
}

struct PoolState {
    /// Segments that lie ready, the most recently used last: it is the one in the cache.
    segments: Vec<SlotRef>,
    /// Segments taken from the network pool and not returned.
    requested: usize,
    /// Segments the pool may have, overdraft apart.
    size: usize,
    /// Buffers in use per subpartition.
    channel_counts: Box<[usize]>,
    /// How many subpartitions have reached their quota.
    channels_at_quota: usize,
    listeners: VecDeque<Arc<dyn BufferListener>>,
    availability: AvailabilityHelper,
    /// Whether the network pool's next free segment will wake this pool.
    waiting_for_network_pool: bool,
    destroyed: bool,
}

impl PoolState {
    fn should_be_available(&self) -> bool {
        !self.segments.is_empty() && self.channels_at_quota == 0
    }
}

impl LocalPoolInner {
    pub(crate) fn new(
        network_pool: Arc<NetworkBufferPool>,
        options: LocalPoolOptions,
    ) -> Arc<Self> {
        Arc::new(Self {
            network_pool,
            options,
            state: ShortLock::new(PoolState {
                segments: Vec::new(),
                requested: 0,
                size: options.min_segments,
                channel_counts: vec![0; options.num_subpartitions].into_boxed_slice(),
                channels_at_quota: 0,
                listeners: VecDeque::new(),
                availability: AvailabilityHelper::new(false),
                waiting_for_network_pool: false,
                destroyed: false,
            }),
        })
    }

    pub(crate) fn options(&self) -> &LocalPoolOptions {
        &self.options
    }

    /// Segments the pool would like to have: its maximum if that is a limit, else its minimum.
    pub(crate) fn estimated_requested(&self) -> usize {
        if self.options.max_segments == usize::MAX {
            self.options.min_segments
        } else {
            self.options.max_segments
        }
    }

    fn channel(&self, channel: usize) -> u32 {
        assert!(
            channel < self.options.num_subpartitions,
            "the pool has {} subpartitions, not a subpartition {channel}",
            self.options.num_subpartitions
        );
        u32::try_from(channel).expect("checked by `LocalPoolOptions::validate`")
    }

    #[inline]
    fn request(self: &Arc<Self>, channel: u32) -> Result<Option<UniqueBuffer>, PoolError> {
        let mut state = self.state.lock();
        if state.destroyed {
            return Err(PoolError::Destroyed);
        }
        let slot = match state.segments.pop() {
            Some(slot) => slot,
            None => match self.request_overdraft(&mut state) {
                Some(slot) => slot,
                None => return Ok(None),
            },
        };
        if channel != NO_CHANNEL {
            let count = &mut state.channel_counts[channel as usize];
            *count += 1;
            if *count == self.options.max_buffers_per_channel {
                state.channels_at_quota += 1;
            }
        }
        let mut signal = None;
        if state.should_be_available() != state.availability.is_available() {
            signal = self.update_availability(&mut state);
        }
        drop(state);
        if let Some(signal) = signal {
            signal.complete();
        }
        // SAFETY: the slot is in no list any more.
        unsafe { slot.start_counting(channel) };
        Ok(Some(UniqueBuffer::from_slot(slot)))
    }

    /// A segment beyond the pool's size, or, within it, one the network pool has free right now.
    #[cold]
    fn request_overdraft(self: &Arc<Self>, state: &mut PoolState) -> Option<SlotRef> {
        if state.requested >= state.size + self.options.max_overdraft {
            return None;
        }
        let slot = self.network_pool.request_pooled()?;
        self.adopt(slot);
        state.requested += 1;
        Some(slot)
    }

    /// Makes this pool the one that `slot` returns to.
    fn adopt(self: &Arc<Self>, slot: SlotRef) {
        // SAFETY: the network pool has just given the slot to this thread alone.
        let before = unsafe { slot.replace_recycler(Recycler::Local(Arc::clone(self))) };
        debug_assert!(matches!(before, Recycler::Idle));
    }

    /// Brings the availability in line with the state, fetching a segment if that is what it takes.
    ///
    /// The signal returned must be completed once the lock is released.
    #[cold]
    fn update_availability(self: &Arc<Self>, state: &mut PoolState) -> Option<Arc<Signal>> {
        if state.destroyed {
            return state.availability.set(true);
        }
        if state.segments.is_empty() && state.requested < state.size {
            self.fetch_one(state);
        }
        let available = state.should_be_available();
        state.availability.set(available)
    }

    /// Takes one free segment of the network pool, or asks to be woken when it has one.
    fn fetch_one(self: &Arc<Self>, state: &mut PoolState) {
        loop {
            let future = match self.network_pool.request_pooled_or_future() {
                Ok(slot) => {
                    self.adopt(slot);
                    state.requested += 1;
                    state.segments.push(slot);
                    return;
                }
                Err(future) => future,
            };
            if state.waiting_for_network_pool || future.is_done_forever() {
                return;
            }
            let pool = Arc::downgrade(self);
            let callback = Box::new(move || {
                if let Some(pool) = pool.upgrade() {
                    pool.on_network_pool_available();
                }
            });
            // The callback must not run here, under this pool's lock: a future that was completed
            // meanwhile refuses it, and there is a segment to take instead.
            if future.register(callback).is_ok() {
                state.waiting_for_network_pool = true;
                return;
            }
        }
    }

    fn on_network_pool_available(self: &Arc<Self>) {
        let signal = {
            let mut state = self.state.lock();
            state.waiting_for_network_pool = false;
            if state.destroyed || !state.segments.is_empty() {
                return;
            }
            self.update_availability(&mut state)
        };
        if let Some(signal) = signal {
            signal.complete();
        }
        self.serve_listeners();
    }

    /// Hands ready segments to those who registered before the segments came.
    fn serve_listeners(self: &Arc<Self>) {
        loop {
            let (slot, listener, signal) = {
                let mut state = self.state.lock();
                if state.listeners.is_empty() {
                    return;
                }
                let Some(slot) = state.segments.pop() else {
                    return;
                };
                let Some(listener) = state.listeners.pop_front() else {
                    return;
                };
                (slot, listener, self.update_availability(&mut state))
            };
            if let Some(signal) = signal {
                signal.complete();
            }
            // SAFETY: the slot is in no list any more.
            unsafe { slot.start_counting(NO_CHANNEL) };
            // A refused buffer is dropped here, which offers it to the next listener.
            drop(listener.on_buffer_available(UniqueBuffer::from_slot(slot)));
        }
    }

    /// Takes back a slot whose last handle was dropped.
    ///
    /// # Safety
    ///
    /// `this` must be the pool of the slot's recycler, and the caller own the slot alone.  Nothing
    /// but the slot's own reference may keep the pool alive, so once the lock is released on the
    /// short path the pool is not touched again.
    #[inline]
    pub(crate) unsafe fn recycle(this: *const Self, slot: SlotRef, channel: u32) {
        // SAFETY: the slot's recycler keeps the pool alive until the slot is in the list.
        let pool = unsafe { &*this };
        let mut state = pool.state.lock();
        let mut quota_freed = false;
        if channel != NO_CHANNEL {
            let count = &mut state.channel_counts[channel as usize];
            if *count == pool.options.max_buffers_per_channel {
                quota_freed = true;
            }
            *count -= 1;
            if quota_freed {
                state.channels_at_quota -= 1;
            }
        }
        let short = !quota_freed
            && !state.destroyed
            && state.requested <= state.size
            && state.listeners.is_empty()
            && state.availability.is_available();
        if short {
            state.segments.push(slot);
            drop(state);
            return;
        }
        // The slot is still ours, and with it the pool.
        // SAFETY: `this` came from an `Arc` that the slot's recycler holds.
        unsafe { Arc::increment_strong_count(this) };
        // SAFETY: the count was raised just now for this very reference.
        let owner = unsafe { Arc::from_raw(this) };
        owner.recycle_with_care(state, slot);
    }

    /// Recycles where somebody may have to be told.
    #[cold]
    fn recycle_with_care<'a>(
        self: &'a Arc<Self>,
        mut state: ShortGuard<'a, PoolState>,
        slot: SlotRef,
    ) {
        loop {
            if state.destroyed || state.requested > state.size {
                state.requested -= 1;
                let signal = if state.destroyed {
                    None
                } else {
                    self.update_availability(&mut state)
                };
                drop(state);
                self.network_pool.recycle_pooled(slot);
                if let Some(signal) = signal {
                    signal.complete();
                }
                return;
            }
            let Some(listener) = state.listeners.pop_front() else {
                state.segments.push(slot);
                let signal = self.update_availability(&mut state);
                drop(state);
                if let Some(signal) = signal {
                    signal.complete();
                }
                return;
            };
            let signal = self.update_availability(&mut state);
            drop(state);
            if let Some(signal) = signal {
                signal.complete();
            }
            // SAFETY: the slot is in no list.
            unsafe { slot.start_counting(NO_CHANNEL) };
            match listener.on_buffer_available(UniqueBuffer::from_slot(slot)) {
                Ok(()) => return,
                // The loop takes the slot over from the refused buffer.
                Err(refused) => refused.into_slot(),
            };
            state = self.state.lock();
        }
    }

    /// Changes the size.  The caller runs the wakeups once it holds no lock.
    pub(crate) fn resize(self: &Arc<Self>, size: usize, wakeups: &mut Wakeups) {
        let mut excess = Vec::new();
        let may_serve = {
            let mut state = self.state.lock();
            state.size = size.min(self.options.max_segments);
            while state.requested > state.size {
                let Some(slot) = state.segments.pop() else {
                    break;
                };
                state.requested -= 1;
                excess.push(slot);
            }
            if state.destroyed {
                false
            } else {
                let signal = self.update_availability(&mut state);
                wakeups.push_signal(signal);
                !state.listeners.is_empty() && !state.segments.is_empty()
            }
        };
        for slot in excess {
            wakeups.push_returned(Arc::clone(&self.network_pool), slot);
        }
        if may_serve {
            let pool = Arc::clone(self);
            wakeups.push_callback(Box::new(move || pool.serve_listeners()));
        }
    }

    pub(crate) fn check_availability_now(self: &Arc<Self>, wakeups: &mut Wakeups) {
        let signal = self.update_availability(&mut self.state.lock());
        wakeups.push_signal(signal);
    }

    fn reserve(self: &Arc<Self>, count: usize) -> Result<(), PoolError> {
        if count > self.options.min_segments {
            return Err(PoolError::InvalidArgument(format!(
                "{count} segments cannot be reserved in a pool that requires {}",
                self.options.min_segments
            )));
        }
        loop {
            let missing = {
                let state = self.state.lock();
                if state.destroyed {
                    return Err(PoolError::Destroyed);
                }
                count.saturating_sub(state.requested)
            };
            if missing == 0 {
                return Ok(());
            }
            let slots = match self.network_pool.collect_segments(missing) {
                Ok(slots) => slots,
                Err((collected, error)) => {
                    for slot in collected {
                        self.network_pool.recycle_pooled(slot);
                    }
                    return Err(error);
                }
            };
            self.take_reserved(slots);
        }
    }

    /// Adds segments that were collected without the lock; those that no longer fit go back.
    fn take_reserved(self: &Arc<Self>, slots: Vec<SlotRef>) {
        let mut rejected = Vec::new();
        let signal = {
            let mut state = self.state.lock();
            for slot in slots {
                if state.destroyed || state.requested >= state.size {
                    rejected.push(slot);
                } else {
                    self.adopt(slot);
                    state.requested += 1;
                    state.segments.push(slot);
                }
            }
            self.update_availability(&mut state)
        };
        for slot in rejected {
            self.network_pool.recycle_pooled(slot);
        }
        if let Some(signal) = signal {
            signal.complete();
        }
        self.serve_listeners();
    }

    pub(crate) fn lazy_destroy(self: &Arc<Self>) {
        let (segments, listeners, signal) = {
            let mut state = self.state.lock();
            if state.destroyed {
                return;
            }
            state.destroyed = true;
            let segments = std::mem::take(&mut state.segments);
            state.requested -= segments.len();
            let listeners = std::mem::take(&mut state.listeners);
            (segments, listeners, state.availability.set(true))
        };
        for slot in segments {
            self.network_pool.recycle_pooled(slot);
        }
        for listener in listeners {
            listener.on_pool_destroyed();
        }
        if let Some(signal) = signal {
            signal.complete();
        }
        self.network_pool.unregister(self);
    }
}
