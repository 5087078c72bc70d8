//! The buffers of one result partition or one input gate.
//!
//! A local pool takes segments from the [`NetworkBufferPool`] as it needs them, up to a size that
//! the network pool changes as pools are created and destroyed, and keeps recycled ones for its
//! next request.
//!
//! *Available* means: a segment is ready and no subpartition is at its quota.  Neither the quota
//! nor the overdraft rejects a request; they only make the pool unavailable, so that the current
//! record can be finished before the task turns to something else.

use std::fmt;
use std::time::Duration;

use crate::availability::{AvailabilityFuture, Wakeups};
use crate::error::PoolError;
use crate::local_pool_inner::LocalPoolInner;
use crate::slot::NO_CHANNEL;
use crate::sync::{Arc, Deadline};
use crate::unique_buffer::UniqueBuffer;

/// Waits for a buffer of a pool that has none.
pub trait BufferListener: Send + Sync {
    /// Offers a buffer; a rejected buffer goes to the next listener.  Called without locks.
    ///
    /// # Errors
    ///
    /// The buffer, if it is no longer needed.
    fn on_buffer_available(&self, buffer: UniqueBuffer) -> Result<(), UniqueBuffer>;

    /// Reports that the pool is destroyed and no buffer will arrive.
    fn on_pool_destroyed(&self);
}

/// A pool of buffers with one owner.  Dropping the handle destroys the pool lazily.
pub struct LocalBufferPool {
    inner: Arc<LocalPoolInner>,
}

impl LocalBufferPool {
    pub(crate) fn new(inner: Arc<LocalPoolInner>) -> Self {
        Self { inner }
    }

    /// Returns a buffer, or `None` if none is ready.
    ///
    /// # Errors
    ///
    /// [`PoolError::Destroyed`].
    #[inline]
    pub fn request_buffer(&self) -> Result<Option<UniqueBuffer>, PoolError> {
        self.inner.request(NO_CHANNEL)
    }

    /// Returns a buffer that counts against the quota of subpartition `channel`, or `None`.
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

    /// Waits for a buffer (`timeout` `None`: until the pool is destroyed); `None` after the
    /// timeout.
    ///
    /// `channel` is the subpartition whose quota the buffer counts against.
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
            // Woken or not, the loop checks again.
            let _ = self.availability().wait(left);
        }
    }

    /// Returns whether a segment is ready and no subpartition is at its quota.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.inner.state.lock().availability.is_available()
    }

    /// Returns the future that completes when the pool is available, or destroyed.
    #[must_use]
    pub fn availability(&self) -> AvailabilityFuture {
        self.inner.state.lock().availability.future()
    }

    /// Requests one buffer by callback.  A listener is called once and then forgotten.
    ///
    /// Returns false, without effect, if a buffer is ready or the pool is destroyed.
    pub fn add_buffer_listener(&self, listener: Arc<dyn BufferListener>) -> bool {
        let mut state = self.inner.state.lock();
        if state.destroyed || !state.segments.is_empty() {
            return false;
        }
        state.listeners.push_back(listener);
        true
    }

    /// Sets the number of segments the pool may have, without the overdraft; at most the maximum.
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

    /// Sets the number of buffers of subpartition `channel` at which the pool becomes unavailable;
    /// buffers in use stay in use.
    ///
    /// # Panics
    ///
    /// If the pool has no such subpartition, or `max_buffers` is 0.
    pub fn set_quota(&self, channel: usize, max_buffers: usize) {
        assert!(max_buffers > 0, "a subpartition needs a buffer");
        self.inner
            .set_quota(self.inner.channel(channel), max_buffers);
    }

    /// Waits until the pool holds at least `count` segments, which is at most its minimum.
    ///
    /// # Errors
    ///
    /// [`PoolError::InvalidArgument`] for more than the minimum; [`PoolError::Timeout`];
    /// [`PoolError::Destroyed`] and [`PoolError::NetworkPoolDestroyed`].
    pub fn reserve_segments(&self, count: usize) -> Result<(), PoolError> {
        self.inner.reserve(count, &mut || true)
    }

    /// Like [`reserve_segments`](Self::reserve_segments), but only while `go_on` returns true; it
    /// is called several times a second.
    ///
    /// # Errors
    ///
    /// Also [`PoolError::Interrupted`] if it returns false.
    pub fn reserve_segments_while(
        &self,
        count: usize,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), PoolError> {
        self.inner.reserve(count, go_on)
    }

    /// Returns the number of segments the pool may have now, without the overdraft.
    #[must_use]
    pub fn num_buffers(&self) -> usize {
        self.inner.state.lock().size
    }

    /// Returns the number of segments the pool can always have.
    #[must_use]
    pub fn min_segments(&self) -> usize {
        self.inner.options.min_segments
    }

    /// Returns the maximum number of segments of the pool, without the overdraft.
    #[must_use]
    pub fn max_segments(&self) -> usize {
        self.inner.options.max_segments
    }

    /// Returns the number of ready segments.
    #[must_use]
    pub fn available_segments(&self) -> usize {
        self.inner.state.lock().segments.len()
    }

    /// Returns the number of segments taken from the network pool and not returned.
    #[must_use]
    pub fn requested_segments(&self) -> usize {
        self.inner.state.lock().requested
    }

    /// Returns the number of segments in use: requested ones that are not ready.
    #[must_use]
    pub fn used_segments(&self) -> usize {
        let state = self.inner.state.lock();
        state.requested - state.segments.len()
    }

    /// Returns whether [`lazy_destroy`](Self::lazy_destroy) was called.
    #[must_use]
    pub fn is_destroyed(&self) -> bool {
        self.inner.state.lock().destroyed
    }

    /// Returns ready segments, rejects every further request, and wakes waiting threads.
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
