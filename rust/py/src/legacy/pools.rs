//! `penstock._core.NetworkBufferPool` and `LocalBufferPool`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use penstock_memory::{self as memory, LocalPoolOptions, UniqueBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::buffers::{Buffer, BufferBuilder};
use crate::errors::{exception, pool_error};
use crate::waiting::{interruptibly, unless_interrupted};

/// Checks a number of segments, bytes or the like.
///
/// # Errors
///
/// `ValueError` for a negative number.
fn amount(what: &str, value: i64) -> PyResult<usize> {
    usize::try_from(value).map_err(|_| PyValueError::new_err(format!("{what} of {value}")))
}

/// A future that completes when its pool becomes available or is destroyed.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct AvailabilityFuture {
    future: memory::AvailabilityFuture,
}

#[pymethods]
impl AvailabilityFuture {
    /// Returns whether the future is complete.
    #[getter]
    fn is_done(&self) -> bool {
        self.future.is_done()
    }

    /// Waits until the future completes; returns False after the timeout.
    #[pyo3(signature = (timeout_seconds = None))]
    fn wait(&self, py: Python<'_>, timeout_seconds: Option<f64>) -> PyResult<bool> {
        // A negative time does not wait; one too large for the clock is no timeout.
        let timeout = timeout_seconds
            .map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX));
        let done = interruptibly(py, timeout, |slice| {
            self.future.wait(Some(slice)).then_some(())
        })?;
        Ok(done.is_some())
    }

    /// Calls `callback` when the future completes, or at once if it is complete.
    fn add_callback(&self, callback: Py<PyAny>) {
        self.future.on_done(Box::new(move || {
            Python::attach(|py| {
                if let Err(error) = callback.call0(py) {
                    // There is no caller to raise it to.
                    error.write_unraisable(py, Some(callback.bind(py)));
                }
            });
        }));
    }
}

/// A segment for exclusive use; returned to its pool at the latest when it is garbage-collected.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct PooledSegment {
    segment: Mutex<Option<memory::PooledSegment>>,
}

/// A listener written in Python.
struct Listener(Py<PyAny>);

impl memory::BufferListener for Listener {
    fn on_buffer_available(&self, buffer: UniqueBuffer) -> Result<(), UniqueBuffer> {
        Python::attach(|py| {
            let offer = || {
                let offered = Bound::new(py, Buffer::unique(buffer))?;
                let answer = self
                    .0
                    .call_method1(py, "notify_buffer_available", (&offered,))
                    .and_then(|answer| answer.is_truthy(py));
                Ok::<_, PyErr>((offered, answer))
            };
            match offer() {
                Ok((_, Ok(true))) => Ok(()),
                Ok((offered, Ok(false))) => offered.get().take_unique().map_or(Ok(()), Err),
                Ok((offered, Err(error))) => {
                    // A listener that raises has not taken it; a traceback may still hold it.
                    offered.get().discard(py);
                    // There is no caller to raise it to.
                    error.write_unraisable(py, Some(self.0.bind(py)));
                    Ok(())
                }
                Err(error) => {
                    // There was no object to offer; the buffer was dropped, and so returned.
                    error.write_unraisable(py, Some(self.0.bind(py)));
                    Ok(())
                }
            }
        })
    }

    fn on_pool_destroyed(&self) {
        Python::attach(|py| {
            if let Err(error) = self.0.call_method0(py, "notify_buffer_destroyed") {
                error.write_unraisable(py, Some(self.0.bind(py)));
            }
        });
    }
}

/// All network memory of one worker.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct NetworkBufferPool {
    pool: Arc<memory::NetworkBufferPool>,
}

#[pymethods]
impl NetworkBufferPool {
    #[new]
    #[pyo3(signature = (num_segments, segment_size, request_timeout_ms = 30_000))]
    fn new(
        py: Python<'_>,
        num_segments: i64,
        segment_size: i64,
        request_timeout_ms: i64,
    ) -> PyResult<Self> {
        let timeout = amount("a request timeout in ms", request_timeout_ms)? as u64;
        let num_segments = amount("a number of segments", num_segments)?;
        let segment_size = amount("segments", segment_size)?;
        let timeout = Duration::from_millis(timeout);
        memory::NetworkBufferPool::new(num_segments, segment_size, timeout)
            .map(|pool| Self { pool })
            .map_err(|error| pool_error(py, &error))
    }

    /// Size of the pool; 0 once it is destroyed.
    #[getter]
    fn total_segments(&self) -> usize {
        self.pool.total_segments()
    }

    /// Number of segments that nobody holds.
    #[getter]
    fn available_segments(&self) -> usize {
        self.pool.available_segments()
    }

    /// Segments promised to pools and channels.
    #[getter]
    fn required_segments(&self) -> usize {
        self.pool.required_segments()
    }

    /// Number of registered local pools.
    #[getter]
    fn num_pools(&self) -> usize {
        self.pool.registered_pools()
    }

    /// Segments promised that their owners have not taken yet.
    #[getter]
    fn owed_segments(&self) -> usize {
        self.pool.owed_segments()
    }

    /// Returns whether `destroy` was called.
    #[getter]
    fn is_destroyed(&self) -> bool {
        self.pool.is_destroyed()
    }

    /// A future that is complete while a segment is free.
    #[getter]
    fn available_future(&self) -> AvailabilityFuture {
        AvailabilityFuture {
            future: self.pool.availability(),
        }
    }

    /// Returns a sentence for the log if the usage has crossed 100 % since the last call, in either
    /// direction.
    fn usage_message(&self) -> Option<String> {
        self.pool.usage_message()
    }

    /// Creates a local pool, by default without an upper limit.
    #[pyo3(signature = (
        min_segments,
        max_segments = None,
        num_subpartitions = 0,
        max_buffers_per_channel = None,
        max_overdraft = 0,
    ))]
    fn create_buffer_pool(
        &self,
        py: Python<'_>,
        min_segments: i64,
        max_segments: Option<i64>,
        num_subpartitions: i64,
        max_buffers_per_channel: Option<i64>,
        max_overdraft: i64,
    ) -> PyResult<LocalBufferPool> {
        let limit = |what, value: Option<i64>| value.map_or(Ok(usize::MAX), |n| amount(what, n));
        let options = LocalPoolOptions::new(
            amount("a minimum", min_segments)?,
            limit("a maximum", max_segments)?,
        )
        .with_quota(
            amount("subpartitions", num_subpartitions)?,
            limit("buffers per channel", max_buffers_per_channel)?,
        )
        .with_overdraft(amount("an overdraft", max_overdraft)?);
        let num_subpartitions = options.num_subpartitions;
        py.detach(|| self.pool.create_buffer_pool(options))
            .map(|pool| LocalBufferPool {
                pool,
                num_subpartitions,
            })
            .map_err(|error| pool_error(py, &error))
    }

    /// Takes segments for exclusive use, waiting for promised ones.
    fn request_unpooled_segments(
        &self,
        py: Python<'_>,
        count: i64,
    ) -> PyResult<Vec<PooledSegment>> {
        let count = amount("a request", count)?;
        let segments = unless_interrupted(py, |go_on| {
            self.pool
                .request_unpooled_memory_segments_while(count, go_on)
        })?
        .map_err(|error| pool_error(py, &error))?;
        let owned = |segment| PooledSegment {
            segment: Mutex::new(Some(segment)),
        };
        Ok(segments.into_iter().map(owned).collect())
    }

    /// Returns segments that were taken for exclusive use.
    fn recycle_unpooled_segments(
        &self,
        py: Python<'_>,
        segments: Vec<PyRef<'_, PooledSegment>>,
    ) -> PyResult<()> {
        let take = |segment: &PyRef<'_, PooledSegment>| {
            let mut owned = segment
                .segment
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            owned.take().ok_or_else(|| {
                exception(py, "IllegalStateError", "the segment was returned before")
            })
        };
        let taken = segments.iter().map(take).collect::<PyResult<Vec<_>>>()?;
        py.detach(|| self.pool.recycle_unpooled_memory_segments(taken));
        Ok(())
    }

    /// Destroys all local pools as `lazy_destroy` does.
    fn destroy_all_buffer_pools(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.pool.destroy_all_buffer_pools())
            .map_err(|error| pool_error(py, &error))
    }

    /// Frees the segments that nobody holds; the others are freed when they are recycled.
    fn destroy(&self, py: Python<'_>) {
        py.detach(|| self.pool.destroy());
    }
}

/// The buffers of one result partition or input gate.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct LocalBufferPool {
    pool: Arc<memory::LocalBufferPool>,
    num_subpartitions: usize,
}

impl LocalBufferPool {
    /// The subpartition whose quota a buffer counts against; -1 for none.
    fn subpartition(&self, channel: i64) -> PyResult<Option<usize>> {
        match usize::try_from(channel) {
            Ok(channel) if channel < self.num_subpartitions => Ok(Some(channel)),
            Err(_) if channel == -1 => Ok(None),
            _ => Err(PyValueError::new_err(format!(
                "subpartition {channel} of a pool with {}",
                self.num_subpartitions
            ))),
        }
    }
}

#[pymethods]
impl LocalBufferPool {
    /// Number of segments that the pool may have now, without overdraft.
    #[getter]
    fn num_buffers(&self) -> usize {
        self.pool.num_buffers()
    }

    /// Segments taken from the network pool and not returned.
    #[getter]
    fn requested(&self) -> usize {
        self.pool.requested_segments()
    }

    /// Number of segments ready for use.
    #[getter]
    fn available_segments(&self) -> usize {
        self.pool.available_segments()
    }

    /// Segments in use.
    #[getter]
    fn used_segments(&self) -> usize {
        self.pool.used_segments()
    }

    /// Returns whether the pool was destroyed.
    #[getter]
    fn is_destroyed(&self) -> bool {
        self.pool.is_destroyed()
    }

    /// Returns whether a segment is ready and no subpartition is at its quota.
    #[getter]
    fn is_available(&self) -> bool {
        self.pool.is_available()
    }

    /// A future that is complete while the pool is available, and once it is destroyed.
    #[getter]
    fn available_future(&self) -> AvailabilityFuture {
        AvailabilityFuture {
            future: self.pool.availability(),
        }
    }

    /// Returns a buffer or None.
    fn request_buffer(&self, py: Python<'_>) -> PyResult<Option<Buffer>> {
        let buffer = self.pool.request_buffer();
        let buffer = buffer.map_err(|error| pool_error(py, &error))?;
        Ok(buffer.map(Buffer::unique))
    }

    /// Returns a builder or None; `channel` names the subpartition whose quota it counts against.
    #[pyo3(signature = (channel = -1), text_signature = "($self, channel=-1)")]
    fn request_builder(&self, py: Python<'_>, channel: i64) -> PyResult<Option<BufferBuilder>> {
        let buffer = match self.subpartition(channel)? {
            Some(channel) => self.pool.request_buffer_for(channel),
            None => self.pool.request_buffer(),
        };
        let buffer = buffer.map_err(|error| pool_error(py, &error))?;
        Ok(buffer.map(BufferBuilder::make))
    }

    /// Waits for a buffer and returns its builder.
    #[pyo3(signature = (channel = -1), text_signature = "($self, channel=-1)")]
    fn request_builder_blocking(&self, py: Python<'_>, channel: i64) -> PyResult<BufferBuilder> {
        let channel = self.subpartition(channel)?;
        loop {
            let requested = interruptibly(py, None, |slice| {
                self.pool
                    .request_buffer_blocking(channel, Some(slice))
                    .transpose()
            })?;
            if let Some(buffer) = requested {
                return buffer
                    .map(BufferBuilder::make)
                    .map_err(|error| pool_error(py, &error));
            }
        }
    }

    /// Queues a listener for one buffer; returns False if a buffer is ready or the pool is
    /// destroyed.
    fn add_buffer_listener(&self, listener: Py<PyAny>) -> bool {
        self.pool.add_buffer_listener(Arc::new(Listener(listener)))
    }

    /// Changes the number of segments that the pool may have, without overdraft.
    fn set_num_buffers(&self, py: Python<'_>, count: i64) -> PyResult<()> {
        let count = amount("a size", count)?;
        py.detach(|| self.pool.set_num_buffers(count))
            .map_err(|error| pool_error(py, &error))
    }

    /// Waits until the pool holds at least `count` segments.
    fn reserve_segments(&self, py: Python<'_>, count: i64) -> PyResult<()> {
        let count = amount("a reserve", count)?;
        unless_interrupted(py, |go_on| self.pool.reserve_segments_while(count, go_on))?
            .map_err(|error| pool_error(py, &error))
    }

    /// Returns the free segments, refuses further requests and wakes the waiting threads.
    fn lazy_destroy(&self, py: Python<'_>) {
        py.detach(|| self.pool.lazy_destroy());
    }
}
