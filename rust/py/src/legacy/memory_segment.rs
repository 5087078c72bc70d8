//! `penstock._core.MemorySegment`.

mod scalars;

use std::ffi::c_int;
use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use penstock_memory::{ForeignKind, SegmentError};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyEOFError};
use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PySlice};

use crate::errors::segment_error;

/// The Python objects of a segment that is not freed.
#[derive(Debug)]
struct Memory {
    /// The object that owns the memory and that views keep alive; a bytearray on the heap.
    array: Py<PyAny>,
    /// The segment's part of that memory.
    view: Py<PyAny>,
}

/// Bytes on the heap or off it, with checked random access.
///
/// A Python object owns the bytes, so its arrays and views share them.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct MemorySegment {
    segment: Mutex<penstock_memory::MemorySegment>,
    memory: Mutex<Option<Memory>>,
    owner: Option<Py<PyAny>>,
    /// Called once, after the memory is freed.  Called without the lock, as it may use the segment.
    cleaner: Mutex<Option<Py<PyAny>>>,
}

impl MemorySegment {
    /// Shares the first `size` bytes of `array`, or all.
    fn share(
        array: &Bound<'_, PyAny>,
        size: Option<usize>,
        kind: ForeignKind,
        owner: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let buffer = PyBuffer::<u8>::get(array)?;
        if buffer.readonly() {
            return Err(PyBufferError::new_err("the memory is read-only"));
        }
        if buffer.dimensions() != 1 || !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err("the memory is not contiguous"));
        }
        let view = PyMemoryView::from(array)?;
        let size = size.unwrap_or(buffer.len_bytes());
        let first = NonNull::new(buffer.buf_ptr().cast()).unwrap_or(NonNull::dangling());
        // SAFETY: the Python buffer has one dimension of at least `size` writable bytes without
        // gaps, and its object must leave them where they are until it is released, which is when
        // `buffer` drops.  Every method of this class that uses the segment holds the GIL from
        // lock to unlock, calls nothing of Python meanwhile and returns no slice of it, so that no
        // Python code runs during an access; and `with_other` never lends two segments that
        // overlap.  (An extension that writes to the object without the GIL breaks the rules of
        // the buffer protocol for everybody.)
        let segment = unsafe {
            penstock_memory::MemorySegment::wrap_foreign(first, size, kind, Box::new(buffer))
        };
        Ok(Self {
            segment: Mutex::new(segment),
            memory: Mutex::new(Some(Memory {
                array: array.clone().unbind(),
                view: part(view.as_any(), 0, size)?.unbind(),
            })),
            owner,
            cleaner: Mutex::new(None),
        })
    }

    /// Copies `bytes` to the heap.
    fn copy_of(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        let array = PyByteArray::new(py, bytes);
        Self::share(array.as_any(), None, ForeignKind::Heap, None)
    }

    /// Maps `size` bytes off the heap.
    fn map(
        py: Python<'_>,
        size: usize,
        kind: ForeignKind,
        owner: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        // A mapping has one byte at least.
        let mapping = py.import("mmap")?.call_method1("mmap", (-1, size.max(1)))?;
        Self::share(&mapping, Some(size), kind, owner)
    }

    /// Returns the Python object that `choose` selects, if `check` succeeds.
    fn give<'py>(
        &self,
        py: Python<'py>,
        check: impl FnOnce(&mut penstock_memory::MemorySegment) -> Result<(), SegmentError>,
        choose: impl FnOnce(&Memory) -> &Py<PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        check(&mut self.lock()).map_err(|error| segment_error(py, &error))?;
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        match memory.as_ref() {
            Some(memory) => Ok(choose(memory).bind(py).clone()),
            // Another thread has freed it since the check.
            None => Err(segment_error(py, &SegmentError::Freed { which: "segment" })),
        }
    }

    fn take_cleaner(&self) -> Option<Py<PyAny>> {
        let mut cleaner = self.cleaner.lock().unwrap_or_else(PoisonError::into_inner);
        cleaner.take()
    }

    fn lock(&self) -> MutexGuard<'_, penstock_memory::MemorySegment> {
        self.segment.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the two segments share a byte.
    fn overlaps(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.lock().overlaps(&other.lock())
    }

    /// Calls `act` with both segments of an operation; if they share bytes, with a copy of
    /// `other`.
    fn with_other<R>(
        &self,
        py: Python<'_>,
        other: &Self,
        act: impl FnOnce(
            &mut penstock_memory::MemorySegment,
            &mut penstock_memory::MemorySegment,
        ) -> Result<R, SegmentError>,
    ) -> PyResult<R> {
        // The GIL is held, so no other thread can be locking the two in the opposite order.
        let result = if self.overlaps(other) {
            let copy = other.copy();
            copy.and_then(|mut copy| act(&mut self.lock(), &mut copy))
        } else {
            act(&mut self.lock(), &mut other.lock())
        };
        result.map_err(|error| segment_error(py, &error))
    }

    /// A segment with a copy of the bytes.
    fn copy(&self) -> Result<penstock_memory::MemorySegment, SegmentError> {
        let segment = self.lock();
        let mut bytes = vec![0; segment.size()];
        segment.get_bytes(0, &mut bytes, 0, segment.size())?;
        Ok(penstock_memory::MemorySegment::wrap_array(bytes))
    }
}

/// `view[offset:offset + length]`.
fn part<'py>(
    view: &Bound<'py, PyAny>,
    offset: usize,
    length: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let py = view.py();
    let range = py.get_type::<PySlice>().call1((offset, offset + length))?;
    view.get_item(range)
}

/// The position of an index; a negative index is out of bounds, like one that is too large.
fn position(index: i64) -> usize {
    index.cast_unsigned() as usize
}

#[pymethods]
impl MemorySegment {
    /// Allocates zeroed bytes on the heap.
    #[staticmethod]
    #[pyo3(signature = (size, owner = None))]
    fn allocate_heap(py: Python<'_>, size: usize, owner: Option<Py<PyAny>>) -> PyResult<Self> {
        let array = PyByteArray::new_with(py, size, |_| Ok(()))?;
        Self::share(array.as_any(), None, ForeignKind::Heap, owner)
    }

    /// Allocates zeroed bytes off the heap.
    #[staticmethod]
    #[pyo3(signature = (size, owner = None))]
    fn allocate_off_heap(py: Python<'_>, size: usize, owner: Option<Py<PyAny>>) -> PyResult<Self> {
        Self::map(py, size, ForeignKind::OffHeap, owner)
    }

    /// Shares the caller's memory, which is on the heap if it is a bytearray.
    #[staticmethod]
    #[pyo3(signature = (memory, owner = None))]
    fn wrap(memory: &Bound<'_, PyAny>, owner: Option<Py<PyAny>>) -> PyResult<Self> {
        let kind = match memory.is_instance_of::<PyByteArray>() {
            true => ForeignKind::Heap,
            false => ForeignKind::OffHeap,
        };
        Self::share(memory, None, kind, owner)
    }

    /// Copies `memory[start:end]`.
    #[staticmethod]
    fn wrap_copy(py: Python<'_>, memory: PyBuffer<u8>, start: i64, end: i64) -> PyResult<Self> {
        let memory = memory.to_vec(py)?;
        let copy =
            penstock_memory::MemorySegment::wrap_copy(&memory, position(start), position(end));
        match copy
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|copy| copy.array())
        {
            Ok(bytes) => Self::copy_of(py, bytes),
            Err(error) => Err(segment_error(py, &error)),
        }
    }

    /// Creates a segment of the four big-endian bytes of `value`.
    #[staticmethod]
    fn wrap_int(py: Python<'_>, value: i32) -> PyResult<Self> {
        Self::copy_of(py, &value.to_be_bytes())
    }

    /// Allocates memory off the heap without views; `free` calls `cleaner` once.
    #[staticmethod]
    fn allocate_unsafe(py: Python<'_>, size: usize, cleaner: Py<PyAny>) -> PyResult<Self> {
        let mut segment = Self::map(py, size, ForeignKind::Unsafe, None)?;
        segment.cleaner = Mutex::new(Some(cleaner));
        Ok(segment)
    }

    /// The `owner` passed when the segment was created.
    #[getter]
    fn owner(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.owner.as_ref().map(|owner| owner.clone_ref(py))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)
    }

    /// The bytearray of a segment on the heap.
    fn get_array<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.give(
            py,
            |segment| segment.array().map(drop),
            |memory| &memory.array,
        )
    }

    /// A view of the memory of a segment off the heap.
    fn get_off_heap_buffer<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let check =
            |segment: &mut penstock_memory::MemorySegment| segment.off_heap_buffer().map(drop);
        let view = self.give(py, check, |memory| &memory.view)?;
        // A new view for each caller, who may release it.
        part(&view, 0, self.size())
    }

    /// Length in bytes, also after `free`.
    #[getter]
    fn size(&self) -> usize {
        self.lock().size()
    }

    /// Returns whether `free` was called.
    #[getter]
    fn is_freed(&self) -> bool {
        self.lock().is_freed()
    }

    /// Returns whether the memory is off the heap.
    #[getter]
    fn is_off_heap(&self, py: Python<'_>) -> PyResult<bool> {
        self.lock()
            .is_off_heap()
            .map_err(|error| segment_error(py, &error))
    }

    /// Frees the memory; a second call does nothing.
    fn free(&self, py: Python<'_>) -> PyResult<()> {
        self.lock()
            .free()
            .map_err(|error| segment_error(py, &error))?;
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let freed = memory.take();
        // Dropping these may run Python code, which may use the segment.
        drop(memory);
        drop(freed);
        match self.take_cleaner() {
            Some(cleaner) => cleaner.call0(py).map(drop),
            None => Ok(()),
        }
    }

    /// The signed byte at `index`.
    fn get(&self, py: Python<'_>, index: i64) -> PyResult<i8> {
        let byte = self.lock().get(position(index));
        byte.map(u8::cast_signed)
            .map_err(|error| segment_error(py, &error))
    }

    /// Stores the low eight bits of `value`.
    fn put(&self, py: Python<'_>, index: i64, value: i64) -> PyResult<()> {
        self.lock()
            .put(position(index), value.to_le_bytes()[0])
            .map_err(|error| segment_error(py, &error))
    }

    /// Returns a view of a range; memory from `allocate_unsafe` has none.
    fn wrap_range<'py>(
        &self,
        py: Python<'py>,
        offset: i64,
        length: i64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (offset, length) = (position(offset), position(length));
        let check =
            |segment: &mut penstock_memory::MemorySegment| segment.wrap(offset, length).map(drop);
        let view = self.give(py, check, |memory| &memory.view)?;
        part(&view, offset, length)
    }

    /// Exports the bytes of a segment that has views; they outlive `free`.
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
        let check = |segment: &mut penstock_memory::MemorySegment| segment.wrap(0, 0).map(drop);
        let shared = slf.get().give(py, check, |memory| &memory.view)?;
        // SAFETY: `view` is the caller's.  The shared view exports the bytes: it becomes the
        // structure's object, keeps the bytes in place, and is released instead of the segment.
        match unsafe { ffi::PyObject_GetBuffer(shared.as_ptr(), view, flags) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(py)),
        }
    }

    /// Does nothing: the shared view is released.  It shows numpy that an array must hold its
    /// export; otherwise numpy would hold the segment alone, whose bytes `free` may return.
    ///
    /// # Safety
    ///
    /// The view is not used, so there is nothing to hold.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {}

    /// Copies `length` bytes at `index` to `target[offset:]`.
    fn get_bytes(
        &self,
        py: Python<'_>,
        index: i64,
        target: PyBuffer<u8>,
        offset: i64,
        length: i64,
    ) -> PyResult<()> {
        let mut bytes = target.to_vec(py)?;
        self.lock()
            .get_bytes(
                position(index),
                &mut bytes,
                position(offset),
                position(length),
            )
            .map_err(|error| segment_error(py, &error))?;
        target.copy_from_slice(py, &bytes)
    }

    /// Copies `source[offset:offset + length]` to `index`.
    fn put_bytes(
        &self,
        py: Python<'_>,
        index: i64,
        source: PyBuffer<u8>,
        offset: i64,
        length: i64,
    ) -> PyResult<()> {
        let bytes = source.to_vec(py)?;
        self.lock()
            .put_bytes(position(index), &bytes, position(offset), position(length))
            .map_err(|error| segment_error(py, &error))
    }

    /// Copies `length` bytes at `index` to a byte buffer's position; returns the new position.
    fn get_to_byte_buffer(
        &self,
        py: Python<'_>,
        index: i64,
        target: PyBuffer<u8>,
        at: i64,
        length: i64,
    ) -> PyResult<usize> {
        let mut bytes = target.to_vec(py)?;
        let writable = (!target.readonly()).then_some(bytes.as_mut_slice());
        let mut moved = position(at);
        self.lock()
            .get_to_byte_buffer(position(index), writable, &mut moved, position(length))
            .map_err(|error| segment_error(py, &error))?;
        target.copy_from_slice(py, &bytes)?;
        Ok(moved)
    }

    /// Copies `length` bytes from a byte buffer's position to `index`; returns the new position.
    fn put_from_byte_buffer(
        &self,
        py: Python<'_>,
        index: i64,
        source: PyBuffer<u8>,
        at: i64,
        length: i64,
    ) -> PyResult<usize> {
        let bytes = source.to_vec(py)?;
        let mut moved = position(at);
        self.lock()
            .put_from_byte_buffer(position(index), &bytes, &mut moved, position(length))
            .map_err(|error| segment_error(py, &error))?;
        Ok(moved)
    }

    /// Writes `length` bytes at `index` to a binary file or an object with its `write`.
    fn get_to_output(
        &self,
        py: Python<'_>,
        output: &Bound<'_, PyAny>,
        index: i64,
        length: i64,
    ) -> PyResult<()> {
        let mut bytes = Vec::new();
        self.lock()
            .get_to_output(&mut bytes, position(index), position(length))
            .map_err(|error| segment_error(py, &error))??;
        output.call_method1("write", (PyBytes::new(py, &bytes),))?;
        Ok(())
    }

    /// Reads `length` bytes to `index` from a binary file or an object with its `read`.
    fn put_from_input(
        &self,
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        index: i64,
        length: i64,
    ) -> PyResult<()> {
        let read = source.call_method1("read", (length,))?;
        let mut bytes = read.extract::<&[u8]>()?;
        self.lock()
            .put_from_input(&mut bytes, position(index), position(length))
            .map_err(|error| segment_error(py, &error))?
            .map_err(|error| PyEOFError::new_err(error.to_string()))
    }

    /// Copies `count` bytes into another segment.
    fn copy_to(
        &self,
        py: Python<'_>,
        offset: i64,
        target: &Self,
        target_offset: i64,
        count: i64,
    ) -> PyResult<()> {
        let (from, to) = (position(offset), position(target_offset));
        let count = position(count);
        if self.overlaps(target) {
            return target.with_other(py, self, |theirs, before| {
                before.copy_to(from, theirs, to, count)
            });
        }
        self.with_other(py, target, |mine, theirs| {
            mine.copy_to(from, theirs, to, count)
        })
    }

    /// Exchanges `count` bytes with another segment; if it raises, both are unchanged.
    fn swap_bytes(
        &self,
        py: Python<'_>,
        scratch: PyBuffer<u8>,
        other: &Self,
        offset: i64,
        other_offset: i64,
        count: i64,
    ) -> PyResult<()> {
        let mut scratch = scratch.to_vec(py)?;
        let (mine_at, theirs_at) = (position(offset), position(other_offset));
        let count = position(count);
        let overlap = self.overlaps(other);
        let swapped = self.with_other(py, other, |mine, theirs| {
            mine.swap_bytes(&mut scratch, theirs, mine_at, theirs_at, count)?;
            let mut moved = Vec::new();
            if overlap {
                moved.resize(count, 0);
                theirs.get_bytes(theirs_at, &mut moved, 0, count)?;
            }
            Ok(moved)
        })?;
        if overlap {
            // `other` was a copy: write it back.  Where the two overlap, the bytes of `other` win.
            other
                .lock()
                .put_bytes(theirs_at, &swapped, 0, count)
                .map_err(|error| segment_error(py, &error))?;
        }
        Ok(())
    }

    /// Compares as unsigned bytes; of two lengths with a common prefix, the shorter is smaller.
    #[pyo3(signature = (other, offset, other_offset, length, other_length = None))]
    fn compare(
        &self,
        py: Python<'_>,
        other: &Self,
        offset: i64,
        other_offset: i64,
        length: i64,
        other_length: Option<i64>,
    ) -> PyResult<i64> {
        let (offset, other_offset) = (position(offset), position(other_offset));
        let (length, other_length) = match other_length {
            // As a position, a negative length would be the longer one.
            Some(other_length) if length.min(other_length) < 0 => (length.min(other_length), None),
            _ => (length, other_length),
        };
        let length = position(length);
        self.with_other(py, other, |mine, theirs| match other_length.map(position) {
            None => mine
                .compare(theirs, offset, other_offset, length)
                .map(i64::from),
            Some(other_length) => {
                mine.compare_lengths(theirs, offset, other_offset, length, other_length)
            }
        })
    }

    /// Returns whether two ranges hold the same bytes.
    fn equal_to(
        &self,
        py: Python<'_>,
        other: &Self,
        offset: i64,
        other_offset: i64,
        length: i64,
    ) -> PyResult<bool> {
        let (offset, other_offset) = (position(offset), position(other_offset));
        let length = position(length);
        self.with_other(py, other, |mine, theirs| {
            mine.equal_to(theirs, offset, other_offset, length)
        })
    }
}

impl Drop for MemorySegment {
    fn drop(&mut self) {
        if let Some(cleaner) = self.take_cleaner() {
            Python::attach(|py| {
                if let Err(error) = cleaner.call0(py) {
                    // There is no caller to raise it to.
                    error.write_unraisable(py, Some(cleaner.bind(py)));
                }
            });
        }
    }
}
