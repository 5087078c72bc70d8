//! `penstock._core.MemorySegment`, for contract tests.

use std::sync::{Mutex, MutexGuard, PoisonError};

use penstock_memory::SegmentError;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyEOFError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::segment_error;

/// Bytes on the heap or off it, with checked random access.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct MemorySegment {
    segment: Mutex<penstock_memory::MemorySegment>,
    /// Called once, after the memory is freed and without the lock: it may look at the segment.
    cleaner: Mutex<Option<Py<PyAny>>>,
}

impl MemorySegment {
    fn make(segment: penstock_memory::MemorySegment) -> Self {
        Self {
            segment: Mutex::new(segment),
            cleaner: Mutex::new(None),
        }
    }

    fn take_cleaner(&self) -> Option<Py<PyAny>> {
        let mut cleaner = self.cleaner.lock().unwrap_or_else(PoisonError::into_inner);
        cleaner.take()
    }

    fn lock(&self) -> MutexGuard<'_, penstock_memory::MemorySegment> {
        self.segment.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `act` with both segments of an operation; the two may be one, then `other` is a copy
    /// as it was before.
    fn with_other<R>(
        &self,
        py: Python<'_>,
        other: &Self,
        act: impl FnOnce(
            &mut penstock_memory::MemorySegment,
            &mut penstock_memory::MemorySegment,
        ) -> Result<R, SegmentError>,
    ) -> PyResult<R> {
        // The GIL is held, so no other thread can be taking the two the other way round.
        let mut mine = self.lock();
        let result = if std::ptr::eq(self, other) {
            let mut before = vec![0; mine.size()];
            mine.get_bytes(0, &mut before, 0, mine.size())
                .map(|()| penstock_memory::MemorySegment::wrap_array(before))
                .and_then(|mut copy| act(&mut mine, &mut copy))
        } else {
            act(&mut mine, &mut other.lock())
        };
        result.map_err(|error| segment_error(py, &error))
    }
}

/// Defines the Python methods that read and write one scalar type, in three byte orders.
macro_rules! scalars {
    ($($type:ty: $($get:ident $put:ident),+;)+) => {
        #[pymethods]
        impl MemorySegment {
            $($(
                fn $get(&self, py: Python<'_>, index: i64) -> PyResult<$type> {
                    let segment = self.lock();
                    segment.$get(position(index)).map_err(|error| segment_error(py, &error))
                }

                fn $put(&self, py: Python<'_>, index: i64, value: $type) -> PyResult<()> {
                    let mut segment = self.lock();
                    segment.$put(position(index), value).map_err(|error| segment_error(py, &error))
                }
            )+)+
        }
    };
}

/// A negative index is outside of every segment, like one that is too large.
fn position(index: i64) -> usize {
    index.cast_unsigned() as usize
}

scalars! {
    bool: get_boolean put_boolean;
    u16: get_char put_char, get_char_little_endian put_char_little_endian,
        get_char_big_endian put_char_big_endian;
    i16: get_short put_short, get_short_little_endian put_short_little_endian,
        get_short_big_endian put_short_big_endian;
    i32: get_int put_int, get_int_little_endian put_int_little_endian,
        get_int_big_endian put_int_big_endian;
    i64: get_long put_long, get_long_little_endian put_long_little_endian,
        get_long_big_endian put_long_big_endian;
    f32: get_float put_float, get_float_little_endian put_float_little_endian,
        get_float_big_endian put_float_big_endian;
    f64: get_double put_double, get_double_little_endian put_double_little_endian,
        get_double_big_endian put_double_big_endian;
}

#[pymethods]
impl MemorySegment {
    /// Allocates zeroed bytes on the heap.
    #[staticmethod]
    fn allocate_heap(size: usize) -> Self {
        Self::make(penstock_memory::MemorySegment::allocate_heap(size))
    }

    /// Allocates zeroed bytes off the heap.
    #[staticmethod]
    fn allocate_off_heap(size: usize) -> Self {
        Self::make(penstock_memory::MemorySegment::allocate_off_heap(size))
    }

    /// Copies `memory[start:end]`.
    #[staticmethod]
    fn wrap_copy(py: Python<'_>, memory: PyBuffer<u8>, start: i64, end: i64) -> PyResult<Self> {
        let memory = memory.to_vec(py)?;
        penstock_memory::MemorySegment::wrap_copy(&memory, position(start), position(end))
            .map(Self::make)
            .map_err(|error| segment_error(py, &error))
    }

    /// Makes a segment of the four big-endian bytes of `value`.
    #[staticmethod]
    fn wrap_int(value: i32) -> Self {
        Self::make(penstock_memory::MemorySegment::wrap_int(value))
    }

    /// Allocates memory off the heap that gives no views; `cleaner` is called once by `free`.
    #[staticmethod]
    fn allocate_unsafe(size: usize, cleaner: Py<PyAny>) -> Self {
        let segment = penstock_memory::MemorySegment::allocate_unsafe(size, Box::new(|| {}));
        Self {
            segment: Mutex::new(segment),
            cleaner: Mutex::new(Some(cleaner)),
        }
    }

    /// Length in bytes; readable after `free`.
    #[getter]
    fn size(&self) -> usize {
        self.lock().size()
    }

    /// Whether `free` was called.
    #[getter]
    fn is_freed(&self) -> bool {
        self.lock().is_freed()
    }

    /// Whether the memory is off the heap.
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

    /// The bytes of a range, which memory for unsafe use does not show.
    fn wrap_range<'py>(
        &self,
        py: Python<'py>,
        offset: i64,
        length: i64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let mut segment = self.lock();
        match segment.wrap(position(offset), position(length)) {
            Ok(bytes) => Ok(PyBytes::new(py, bytes)),
            Err(error) => Err(segment_error(py, &error)),
        }
    }

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

    /// Writes `length` bytes at `index` to a binary file or what behaves like one.
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

    /// Reads `length` bytes from a binary file, or what behaves like one, to `index`.
    fn put_from_input(
        &self,
        py: Python<'_>,
        input: &Bound<'_, PyAny>,
        index: i64,
        length: i64,
    ) -> PyResult<()> {
        let read = input.call_method1("read", (length,))?;
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
        if std::ptr::eq(self, target) {
            return self.with_other(py, target, |mine, before| {
                before.copy_to(from, mine, to, count)
            });
        }
        self.with_other(py, target, |mine, theirs| {
            mine.copy_to(from, theirs, to, count)
        })
    }

    /// Exchanges `count` bytes with another segment; nothing moves when it raises.
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
        let is_one = std::ptr::eq(self, other);
        self.with_other(py, other, |mine, theirs| {
            mine.swap_bytes(&mut scratch, theirs, mine_at, theirs_at, count)?;
            if is_one {
                theirs.copy_to(theirs_at, mine, theirs_at, count)?;
            }
            Ok(())
        })
    }

    /// Compares as unsigned bytes; with two lengths a common prefix decides for the shorter.
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

    /// Whether two ranges hold the same bytes.
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
                    // Nobody is there to raise it for.
                    error.write_unraisable(py, Some(cleaner.bind(py)));
                }
            });
        }
    }
}
