//! `penstock._core.NetworkBufferPool`, `LocalBufferPool` and `Buffer`, for contract tests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use penstock_memory::{LocalPoolOptions, PooledSegment, UniqueBuffer};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::capi::timeout;
use crate::errors::{exception, pool_error};

/// All network memory of one worker.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct NetworkBufferPool {
    pool: Arc<penstock_memory::NetworkBufferPool>,
    /// What `request_unpooled_segments` took and nobody returned yet.
    unpooled: Mutex<Vec<PooledSegment>>,
}

#[pymethods]
impl NetworkBufferPool {
    #[new]
    #[pyo3(signature = (num_segments, segment_size, request_timeout_ms = 30_000))]
    fn new(
        py: Python<'_>,
        num_segments: usize,
        segment_size: usize,
        request_timeout_ms: u64,
    ) -> PyResult<Self> {
        let timeout = Duration::from_millis(request_timeout_ms);
        let pool = penstock_memory::NetworkBufferPool::new(num_segments, segment_size, timeout)
            .map_err(|error| pool_error(py, &error))?;
        Ok(Self {
            pool,
            unpooled: Mutex::default(),
        })
    }

    /// Size of the pool; 0 once it is destroyed.
    #[getter]
    fn total_segments(&self) -> usize {
        self.pool.total_segments()
    }

    /// Segments that nobody holds.
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

    /// Whether a segment is free.
    fn is_available(&self) -> bool {
        self.pool.is_available()
    }

    /// Makes a local pool; `max_segments` None means no limit.
    #[pyo3(signature = (
        min_segments,
        max_segments = None,
        num_subpartitions = 0,
        max_buffers_per_channel = usize::MAX,
        max_overdraft = 0,
    ))]
    fn create_buffer_pool(
        &self,
        py: Python<'_>,
        min_segments: usize,
        max_segments: Option<usize>,
        num_subpartitions: usize,
        max_buffers_per_channel: usize,
        max_overdraft: usize,
    ) -> PyResult<LocalBufferPool> {
        let options = LocalPoolOptions::new(min_segments, max_segments.unwrap_or(usize::MAX))
            .with_quota(num_subpartitions, max_buffers_per_channel)
            .with_overdraft(max_overdraft);
        self.pool
            .create_buffer_pool(options)
            .map(|pool| LocalBufferPool { pool })
            .map_err(|error| pool_error(py, &error))
    }

    /// Takes segments for exclusive use, waiting for promised ones; this object keeps them.
    fn request_unpooled_segments(&self, py: Python<'_>, count: usize) -> PyResult<()> {
        let segments = py
            .detach(|| self.pool.request_unpooled_memory_segments(count))
            .map_err(|error| pool_error(py, &error))?;
        self.unpooled().extend(segments);
        Ok(())
    }

    /// Returns that many of the segments taken, or as many as there are.
    fn recycle_unpooled_segments(&self, py: Python<'_>, count: usize) {
        let mut unpooled = self.unpooled();
        let keep = unpooled.len().saturating_sub(count);
        let segments = unpooled.split_off(keep);
        drop(unpooled);
        py.detach(|| self.pool.recycle_unpooled_memory_segments(segments));
    }

    /// Destroys every local pool lazily.
    fn destroy_all_buffer_pools(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.pool.destroy_all_buffer_pools())
            .map_err(|error| pool_error(py, &error))
    }

    /// Frees the segments that nobody holds; the others are freed when they are recycled.
    fn destroy(&self, py: Python<'_>) {
        py.detach(|| self.pool.destroy());
    }
}

impl NetworkBufferPool {
    fn unpooled(&self) -> MutexGuard<'_, Vec<PooledSegment>> {
        self.unpooled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The buffers of one result partition or input gate.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct LocalBufferPool {
    pool: Arc<penstock_memory::LocalBufferPool>,
}

#[pymethods]
impl LocalBufferPool {
    /// Segments the pool may have now, overdraft apart.
    #[getter]
    fn num_buffers(&self) -> usize {
        self.pool.num_buffers()
    }

    /// Segments taken from the network pool and not returned.
    #[getter]
    fn requested(&self) -> usize {
        self.pool.requested_segments()
    }

    /// Segments that lie ready.
    #[getter]
    fn available_segments(&self) -> usize {
        self.pool.available_segments()
    }

    /// Segments in use.
    #[getter]
    fn used_segments(&self) -> usize {
        self.pool.used_segments()
    }

    /// Whether the pool was destroyed.
    #[getter]
    fn is_destroyed(&self) -> bool {
        self.pool.is_destroyed()
    }

    /// Whether a segment lies ready and no subpartition is at its quota.
    fn is_available(&self) -> bool {
        self.pool.is_available()
    }

    /// Waits until that is so or the pool is destroyed; False when the time is over.
    fn wait_available(&self, py: Python<'_>, timeout_ms: i64) -> bool {
        py.detach(|| self.pool.availability().wait(timeout(timeout_ms)))
    }

    /// Returns a buffer or None; `channel` names the subpartition whose quota it counts against.
    #[pyo3(signature = (channel = None))]
    fn request_buffer(&self, py: Python<'_>, channel: Option<usize>) -> PyResult<Option<Buffer>> {
        let buffer = match channel {
            Some(channel) => self.pool.request_buffer_for(channel),
            None => self.pool.request_buffer(),
        };
        Ok(buffer
            .map_err(|error| pool_error(py, &error))?
            .map(Buffer::make))
    }

    /// Waits for a buffer; None when the time is over.  A negative timeout waits without end.
    #[pyo3(signature = (channel = None, timeout_ms = -1))]
    fn request_buffer_blocking(
        &self,
        py: Python<'_>,
        channel: Option<usize>,
        timeout_ms: i64,
    ) -> PyResult<Option<Buffer>> {
        let buffer = py
            .detach(|| {
                self.pool
                    .request_buffer_blocking(channel, timeout(timeout_ms))
            })
            .map_err(|error| pool_error(py, &error))?;
        Ok(buffer.map(Buffer::make))
    }

    /// Changes the number of segments the pool may have, overdraft apart.
    fn set_num_buffers(&self, py: Python<'_>, count: usize) -> PyResult<()> {
        self.pool
            .set_num_buffers(count)
            .map_err(|error| pool_error(py, &error))
    }

    /// Waits until the pool holds at least `count` segments.
    fn reserve_segments(&self, py: Python<'_>, count: usize) -> PyResult<()> {
        py.detach(|| self.pool.reserve_segments(count))
            .map_err(|error| pool_error(py, &error))
    }

    /// Returns what lies ready, refuses every further request, wakes who waits.
    fn lazy_destroy(&self, py: Python<'_>) {
        py.detach(|| self.pool.lazy_destroy());
    }
}

/// A writable buffer of a pool; `recycle` or the garbage collector returns it.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct Buffer {
    buffer: Mutex<Option<UniqueBuffer>>,
}

impl Buffer {
    fn make(buffer: UniqueBuffer) -> Self {
        Self {
            buffer: Mutex::new(Some(buffer)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<UniqueBuffer>> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut UniqueBuffer) -> PyResult<T>,
    ) -> PyResult<T> {
        match self.lock().as_mut() {
            Some(buffer) => act(buffer),
            None => Err(exception(
                py,
                "IllegalStateError",
                "buffer has been recycled",
            )),
        }
    }
}

#[pymethods]
impl Buffer {
    /// How many bytes fit.
    #[getter]
    fn capacity(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |buffer| Ok(buffer.capacity()))
    }

    /// How many bytes are written.
    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |buffer| Ok(buffer.size()))
    }

    /// Whether `recycle` was called.
    #[getter]
    fn is_recycled(&self) -> bool {
        self.lock().is_none()
    }

    /// Says how many bytes are written.
    fn set_size(&self, py: Python<'_>, size: usize) -> PyResult<()> {
        self.with(py, |buffer| {
            buffer
                .set_size(size)
                .map_err(|error| PyIndexError::new_err(error.to_string()))
        })
    }

    /// Appends as much of `data` as fits and returns how many bytes that were.
    fn append(&self, py: Python<'_>, data: &[u8]) -> PyResult<usize> {
        self.with(py, |buffer| Ok(buffer.append(data)))
    }

    /// Returns the bytes written.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.with(py, |buffer| {
            let size = buffer.size();
            Ok(PyBytes::new(py, &buffer.as_mut_slice()[..size]))
        })
    }

    /// Returns the segment to its pool.
    fn recycle(&self, py: Python<'_>) -> PyResult<()> {
        let buffer = self.lock().take();
        match buffer {
            Some(buffer) => {
                // Recycling may wake a listener, which must not wait for the GIL held here.
                py.detach(|| drop(buffer));
                Ok(())
            }
            None => Err(exception(
                py,
                "IllegalStateError",
                "buffer has been recycled",
            )),
        }
    }
}
