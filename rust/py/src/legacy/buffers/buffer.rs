//! `penstock._core.Buffer`: a part of a segment, kept by a count of references.

use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::Arc;

use penstock_memory::{self as memory, BufferError, DataType, UniqueBuffer};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

use super::{Held, buffer_error, data_type_object, gone, position};

/// A handle on a segment: the only one, which may write, or one of several.
#[derive(Debug)]
enum Handle {
    Unique(UniqueBuffer),
    Shared(memory::Buffer),
}

/// The part of a segment that a Python object shows.
#[derive(Debug)]
struct Part {
    handle: Handle,
    /// Most bytes it may hold.
    capacity: usize,
    /// Largest capacity that can be set.
    limit: usize,
}

impl Part {
    fn new(handle: Handle) -> Self {
        let limit = match &handle {
            Handle::Unique(buffer) => buffer.capacity(),
            Handle::Shared(buffer) => buffer.size(),
        };
        Self {
            handle,
            capacity: limit,
            limit,
        }
    }

    fn size(&self) -> usize {
        match &self.handle {
            Handle::Unique(buffer) => buffer.size(),
            Handle::Shared(buffer) => buffer.size(),
        }
    }

    fn out_of_bounds(&self, length: usize) -> BufferError {
        BufferError::OutOfBounds {
            index: 0,
            length,
            size: self.capacity,
        }
    }

    fn set_size(&mut self, size: usize) -> Result<(), BufferError> {
        if size > self.capacity {
            return Err(self.out_of_bounds(size));
        }
        match &mut self.handle {
            Handle::Unique(buffer) => buffer.set_size(size),
            Handle::Shared(buffer) => buffer.set_size(size),
        }
    }

    fn set_capacity(&mut self, capacity: usize) -> Result<(), BufferError> {
        if capacity < self.size() || capacity > self.limit {
            return Err(self.out_of_bounds(capacity));
        }
        self.capacity = capacity;
        Ok(())
    }
}

/// A buffer and its slices, kept by one count of references.
#[derive(Debug)]
struct Family {
    references: usize,
    /// Number of views of the bytes that Python objects hold.
    exports: usize,
    /// The part of each object, None once the object is gone.
    parts: Vec<Option<Part>>,
}

impl Family {
    fn add(&mut self, part: Part) -> usize {
        let at = self.parts.iter().position(Option::is_none);
        let at = at.unwrap_or(self.parts.len());
        match self.parts.get_mut(at) {
            Some(place) => *place = Some(part),
            None => self.parts.push(Some(part)),
        }
        at
    }
}

/// A buffer or a slice of one.  They share a count of references; at 0 the segment is returned.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct Buffer {
    family: Arc<Held<Family>>,
    /// Which part is this object's.
    at: usize,
}

impl Buffer {
    pub(crate) fn unique(buffer: UniqueBuffer) -> Self {
        Self::first(Part::new(Handle::Unique(buffer)))
    }

    pub(super) fn shared(buffer: memory::Buffer) -> Self {
        Self::first(Part::new(Handle::Shared(buffer)))
    }

    fn first(part: Part) -> Self {
        Self {
            family: Arc::new(Held::new(Family {
                references: 1,
                exports: 0,
                parts: vec![Some(part)],
            })),
            at: 0,
        }
    }

    /// The original buffer, if nobody has shared or recycled it.
    pub(crate) fn take_unique(&self) -> Option<UniqueBuffer> {
        let mut held = self.family.lock();
        let family = held.as_mut().filter(|family| family.references == 1)?;
        match family.parts.get_mut(self.at)?.take() {
            Some(Part {
                handle: Handle::Unique(buffer),
                ..
            }) => {
                *held = None;
                Some(buffer)
            }
            other => {
                family.parts[self.at] = other;
                None
            }
        }
    }

    /// Drops the segment, if it is still there.
    pub(crate) fn discard(&self, py: Python<'_>) {
        self.family.release(py);
    }

    fn with_part<R>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut Part) -> Result<R, BufferError>,
    ) -> PyResult<R> {
        self.family.with(py, |family| {
            let part = family.parts[self.at].as_mut().ok_or_else(|| gone(py))?;
            act(part).map_err(|error| buffer_error(py, &error))
        })
    }

    /// Reads from a handle without changing it.
    fn look<R>(
        &self,
        py: Python<'_>,
        unique: impl FnOnce(&UniqueBuffer) -> R,
        shared: impl FnOnce(&memory::Buffer) -> R,
    ) -> PyResult<R> {
        self.with_part(py, |part| {
            Ok(match &part.handle {
                Handle::Unique(buffer) => unique(buffer),
                Handle::Shared(buffer) => shared(buffer),
            })
        })
    }

    fn with_shared<R>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut memory::Buffer) -> PyResult<R>,
    ) -> PyResult<R> {
        self.family.with(py, |family| {
            let place = &mut family.parts[self.at];
            let part = place.take().ok_or_else(|| gone(py))?;
            let mut buffer = match part.handle {
                Handle::Unique(buffer) => buffer.into_buffer(DataType::DataBuffer),
                Handle::Shared(buffer) => buffer,
            };
            let result = act(&mut buffer);
            *place = Some(Part {
                handle: Handle::Shared(buffer),
                ..part
            });
            result
        })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let part = self
            .family
            .lock()
            .as_mut()
            .and_then(|family| family.parts[self.at].take());
        // Not under the lock: the last one may wake a listener.
        drop(part);
    }
}

#[pymethods]
impl Buffer {
    /// Most bytes it may hold.
    #[getter]
    fn capacity(&self, py: Python<'_>) -> PyResult<usize> {
        self.with_part(py, |part| Ok(part.capacity))
    }

    /// Lowers the capacity, or raises it up to its initial value.
    #[setter]
    fn set_capacity(&self, py: Python<'_>, capacity: i64) -> PyResult<()> {
        let capacity = position(capacity)?;
        self.with_part(py, |part| part.set_capacity(capacity))
    }

    /// Returns the number of bytes.
    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<usize> {
        self.with_part(py, |part| Ok(part.size()))
    }

    /// Sets the number of bytes; once the buffer is shared it can only shrink.
    #[setter]
    fn set_size(&self, py: Python<'_>, size: i64) -> PyResult<()> {
        let size = position(size)?;
        self.with_part(py, |part| part.set_size(size))
    }

    /// Returns the number of bytes already read.
    #[getter]
    fn reader_index(&self, py: Python<'_>) -> PyResult<usize> {
        self.look(py, |_| 0, memory::Buffer::reader_index)
    }

    #[setter]
    fn set_reader_index(&self, py: Python<'_>, index: i64) -> PyResult<()> {
        let index = position(index)?;
        self.with_shared(py, |buffer| {
            buffer
                .set_reader_index(index)
                .map_err(|error| buffer_error(py, &error))
        })
    }

    /// Returns the number of bytes not read yet.
    #[getter]
    fn readable_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.look(py, UniqueBuffer::size, |buffer| buffer.readable().len())
    }

    /// Returns the offset of the bytes in the segment.
    #[getter]
    fn memory_segment_offset(&self, py: Python<'_>) -> PyResult<usize> {
        self.look(py, |_| 0, memory::Buffer::memory_segment_offset)
    }

    /// Data type of the content.
    #[getter]
    fn data_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let kind = self.look(py, |_| DataType::DataBuffer, memory::Buffer::data_type)?;
        data_type_object(py, kind)
    }

    /// Number of references held.
    #[getter]
    fn references(&self) -> usize {
        self.family
            .lock()
            .as_ref()
            .map_or(0, |family| family.references)
    }

    /// Returns whether the bytes are compressed.
    #[getter]
    fn is_compressed(&self, py: Python<'_>) -> PyResult<bool> {
        self.look(py, |_| false, memory::Buffer::is_compressed)
    }

    #[setter]
    fn set_is_compressed(&self, py: Python<'_>, compressed: bool) -> PyResult<()> {
        self.with_shared(py, |buffer| {
            buffer.set_compressed(compressed);
            Ok(())
        })
    }

    /// Returns whether the segment was returned to its pool.
    #[getter]
    fn is_recycled(&self) -> bool {
        self.family.lock().is_none()
    }

    /// Returns a read-only view of the bytes not read yet, without copying them.
    fn view<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyMemoryView>> {
        PyMemoryView::from(slf.as_any())
    }

    /// Exports the bytes not read yet, read-only.
    ///
    /// # Safety
    ///
    /// `view` is null or points to a buffer structure that the caller owns.
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let py = slf.py();
        if view.is_null() {
            return Err(PyBufferError::new_err(
                "there is no buffer structure to fill",
            ));
        }
        // SAFETY: `view` points to the caller's structure, whose object is null after an error.
        unsafe { (*view).obj = null_mut() };
        let this = slf.get();
        let exported = this.with_shared(py, |buffer| Ok(Box::new(buffer.clone())))?;
        let bytes = exported.readable();
        let first = bytes.as_ptr().cast_mut().cast();
        let length = bytes.len() as ffi::Py_ssize_t;
        // SAFETY: `exported` keeps the bytes where they are and unchanged until it is dropped, by
        // `__releasebuffer__` alone; the view is read-only.
        let status = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), first, length, 1, flags) };
        if status != 0 {
            return Err(PyErr::fetch(py));
        }
        // SAFETY: `view` was filled just now; this field is the exporter's.
        unsafe { (*view).internal = Box::into_raw(exported).cast() };
        if let Some(family) = this.family.lock().as_mut() {
            family.exports += 1;
        }
        Ok(())
    }

    /// Ends an export.
    ///
    /// # Safety
    ///
    /// `__getbuffer__` has filled `view`, which is released only once.
    unsafe fn __releasebuffer__(&self, py: Python<'_>, view: *mut ffi::Py_buffer) {
        // SAFETY: `view` is the structure that `__getbuffer__` has filled.
        let boxed = unsafe { (*view).internal };
        // SAFETY: `__getbuffer__` has put a box there, and the view is released once.
        let exported = unsafe { Box::from_raw(boxed.cast::<memory::Buffer>()) };
        if let Some(family) = self.family.lock().as_mut() {
            family.exports -= 1;
        }
        // Not under the GIL: the last handle may wake a listener.
        py.detach(|| drop(exported));
    }

    /// Adds a reference.
    fn retain(slf: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        slf.family.with(slf.py(), |family| {
            family.references += 1;
            Ok(())
        })?;
        Ok(slf)
    }

    /// Returns a read-only slice that shares the count of references, without adding one.
    fn slice(&self, py: Python<'_>, offset: i64, length: i64) -> PyResult<Self> {
        let (offset, length) = (position(offset)?, position(length)?);
        let slice = self.with_shared(py, |buffer| {
            buffer
                .read_only_slice(offset, length)
                .map_err(|error| buffer_error(py, &error))
        })?;
        let part = Part::new(Handle::Shared(slice));
        let at = self.family.with(py, |family| Ok(family.add(part)))?;
        Ok(Self {
            family: Arc::clone(&self.family),
            at,
        })
    }

    /// Drops a reference; the last one returns the segment, unless a view of it is in use.
    fn recycle(&self, py: Python<'_>) -> PyResult<()> {
        let is_last = self.family.with(py, |family| {
            if family.references == 1 && family.exports > 0 {
                return Err(PyBufferError::new_err(format!(
                    "{} views of the buffer are in use; release them before you recycle it",
                    family.exports
                )));
            }
            family.references -= 1;
            Ok(family.references == 0)
        })?;
        if is_last {
            self.family.release(py);
        }
        Ok(())
    }
}
