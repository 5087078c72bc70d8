//! The state that the handle of a local pool, the network pool and the segments share.

use std::collections::VecDeque;

use crate::availability::{AvailabilityHelper, Signal, Wakeups};
use crate::error::PoolError;
use crate::free_segments::Claim;
use crate::local_buffer_pool::BufferListener;
use crate::local_pool_options::LocalPoolOptions;
use crate::network_buffer_pool::NetworkBufferPool;
use crate::short_lock::{ShortGuard, ShortLock};
use crate::slot::{NO_CHANNEL, Recycler, SlotRef};
use crate::sync::Arc;
use crate::unique_buffer::UniqueBuffer;

/// State that the handle, the network pool and the circulating segments share.
///
/// Ready segments keep their reference to the pool, so that a request touches no counter;
/// [`lazy_destroy`](Self::lazy_destroy) breaks this cycle.
pub(crate) struct LocalPoolInner {
    network_pool: Arc<NetworkBufferPool>,
    pub(crate) options: LocalPoolOptions,
    pub(crate) state: ShortLock<PoolState>,
}

pub(crate) struct PoolState {
    /// Ready segments, the most recently used last: it is the one in the cache.
    pub(crate) segments: Vec<SlotRef>,
    /// Segments taken from the network pool and not returned.
    pub(crate) requested: usize,
    /// Segments the pool may have, without the overdraft.
    pub(crate) size: usize,
    /// Buffers in use per subpartition.
    channel_counts: Box<[usize]>,
    /// Number of buffers in use at which a subpartition makes the pool unavailable.
    quotas: Box<[usize]>,
    /// Number of subpartitions that have reached their quota.
    channels_at_quota: usize,
    pub(crate) listeners: VecDeque<Arc<dyn BufferListener>>,
    pub(crate) availability: AvailabilityHelper,
    /// True if the network pool's next free segment will wake this pool.
    waiting_for_network_pool: bool,
    pub(crate) destroyed: bool,
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
                quotas: vec![options.max_buffers_per_channel; options.num_subpartitions]
                    .into_boxed_slice(),
                channels_at_quota: 0,
                listeners: VecDeque::new(),
                availability: AvailabilityHelper::new(false),
                waiting_for_network_pool: false,
                destroyed: false,
            }),
        })
    }

    pub(crate) fn network_pool(&self) -> &Arc<NetworkBufferPool> {
        &self.network_pool
    }

    pub(crate) fn options(&self) -> &LocalPoolOptions {
        &self.options
    }

    /// Returns the wanted number of segments: the maximum if that is a limit, else the minimum.
    pub(crate) fn estimated_requested(&self) -> usize {
        if self.options.max_segments == usize::MAX {
            self.options.min_segments
        } else {
            self.options.max_segments
        }
    }

    pub(crate) fn channel(&self, channel: usize) -> u32 {
        assert!(
            channel < self.options.num_subpartitions,
            "the pool has {} subpartitions, not a subpartition {channel}",
            self.options.num_subpartitions
        );
        u32::try_from(channel).expect("checked by `LocalPoolOptions::validate`")
    }

    #[inline]
    pub(crate) fn request(
        self: &Arc<Self>,
        channel: u32,
    ) -> Result<Option<UniqueBuffer>, PoolError> {
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
            let quota = state.quotas[channel as usize];
            let count = &mut state.channel_counts[channel as usize];
            *count += 1;
            if *count == quota {
                state.channels_at_quota += 1;
            }
        }
        let mut signal = None;
        // The last one at hand is followed by the next, whether or not a subpartition is at its quota.
        if state.segments.is_empty()
            || state.should_be_available() != state.availability.is_available()
        {
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

    /// Takes a segment beyond the pool's size, or a free one of the network pool within it; beyond
    /// the pool's minimum never one that the network pool owes to others.
    #[cold]
    fn request_overdraft(self: &Arc<Self>, state: &mut PoolState) -> Option<SlotRef> {
        if state.requested >= state.size + self.options.max_overdraft {
            return None;
        }
        let slot = self.network_pool.request_pooled(self.claim(state))?;
        self.adopt(slot);
        state.requested += 1;
        Some(slot)
    }

    /// Returns the right by which the pool takes its next segment.
    fn claim(&self, state: &PoolState) -> Claim {
        if state.requested < self.options.min_segments {
            Claim::Promised
        } else {
            Claim::Surplus
        }
    }

    /// Makes this pool the recycler of `slot`.
    fn adopt(self: &Arc<Self>, slot: SlotRef) {
        // SAFETY: the network pool has just given the slot to this thread alone.
        let before = unsafe { slot.replace_recycler(Recycler::Local(Arc::clone(self))) };
        debug_assert!(matches!(before, Recycler::Idle));
    }

    /// Updates the availability, fetching a segment if necessary.
    ///
    /// The caller completes the returned signal after it has released the lock.
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

    /// Takes one free segment of the network pool, or registers for its next one.
    fn fetch_one(self: &Arc<Self>, state: &mut PoolState) {
        loop {
            let claim = self.claim(state);
            let future = match self.network_pool.request_pooled_or_future(claim) {
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
            // The callback must not run here, under this pool's lock: a future that completed
            // meanwhile rejects it, and a segment can be taken instead.
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

    /// Passes ready segments to listeners that registered before the segments arrived.
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

    /// Recycles a slot whose last handle was dropped.
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
            let quota = state.quotas[channel as usize];
            let count = &mut state.channel_counts[channel as usize];
            if *count == quota {
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

    /// Recycles a slot if a listener or waiting thread may exist.
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
                // The loop takes over the slot of the rejected buffer.
                Err(refused) => refused.into_slot(),
            };
            state = self.state.lock();
        }
    }

    /// Changes the quota of a subpartition.
    pub(crate) fn set_quota(self: &Arc<Self>, channel: u32, max_buffers: usize) {
        let mut state = self.state.lock();
        let index = channel as usize;
        let count = state.channel_counts[index];
        let before = std::mem::replace(&mut state.quotas[index], max_buffers);
        match (count >= before, count >= max_buffers) {
            (false, true) => state.channels_at_quota += 1,
            (true, false) => state.channels_at_quota -= 1,
            _ => {}
        }
        let signal = self.update_availability(&mut state);
        drop(state);
        if let Some(signal) = signal {
            signal.complete();
        }
    }

    /// Sets the size.  The caller runs the wake-ups once it holds no lock.
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

    pub(crate) fn reserve(
        self: &Arc<Self>,
        count: usize,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), PoolError> {
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
            let collected = self
                .network_pool
                .collect_segments(missing, Claim::Reserved, go_on);
            let slots = match collected {
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

    /// Adds segments that were collected without the lock; excess ones return to the network pool.
    fn take_reserved(self: &Arc<Self>, slots: Vec<SlotRef>) {
        let mut rejected = Vec::new();
        let mut settled = 0;
        let signal = {
            let mut state = self.state.lock();
            for slot in slots {
                if state.destroyed || state.requested >= state.size {
                    rejected.push(slot);
                } else {
                    self.adopt(slot);
                    settled += usize::from(self.claim(&state) == Claim::Promised);
                    state.requested += 1;
                    state.segments.push(slot);
                }
            }
            self.update_availability(&mut state)
        };
        self.network_pool.settle(settled);
        for slot in rejected {
            self.network_pool.recycle_pooled(slot);
        }
        if let Some(signal) = signal {
            signal.complete();
        }
        self.serve_listeners();
    }

    pub(crate) fn lazy_destroy(self: &Arc<Self>) {
        let (segments, listeners, signal, owed) = {
            let mut state = self.state.lock();
            if state.destroyed {
                return;
            }
            state.destroyed = true;
            let owed = self.options.min_segments.saturating_sub(state.requested);
            let segments = std::mem::take(&mut state.segments);
            state.requested -= segments.len();
            let listeners = std::mem::take(&mut state.listeners);
            (segments, listeners, state.availability.set(true), owed)
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
        self.network_pool.unregister(self, owed);
    }
}
