//! `penstock._core.MemorySegment`, for contract tests.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::segment_error;

/// Bytes on the heap or off it, with checked random access.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct MemorySegment {
    segment: Mutex<penstock_memory::MemorySegment>,
}

impl MemorySegment {
    fn make(segment: penstock_memory::MemorySegment) -> Self {
        Self {
            segment: Mutex::new(segment),
        }
    }

    fn lock(&self) -> MutexGuard<'_, penstock_memory::MemorySegment> {
        self.segment.lock().unwrap_or_else(PoisonError::into_inner)
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
    usize::try_from(index).unwrap_or(usize::MAX)
}

scalars! {
    u8: get put;
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
    fn wrap_copy(py: Python<'_>, memory: &[u8], start: usize, end: usize) -> PyResult<Self> {
        penstock_memory::MemorySegment::wrap_copy(memory, start, end)
            .map(Self::make)
            .map_err(|error| segment_error(py, &error))
    }

    /// Makes a segment of the four big-endian bytes of `value`.
    #[staticmethod]
    fn wrap_int(value: i32) -> Self {
        Self::make(penstock_memory::MemorySegment::wrap_int(value))
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
            .map_err(|error| segment_error(py, &error))
    }

    /// Returns `length` bytes at `index`.
    fn get_bytes<'py>(
        &self,
        py: Python<'py>,
        index: i64,
        length: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let segment = self.lock();
        // Checked against the segment before anything of that length is allocated.
        let mut bytes = vec![0; length.min(segment.size())];
        segment
            .get_bytes(position(index), &mut bytes, 0, length)
            .map_err(|error| segment_error(py, &error))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Writes `data` at `index`.
    fn put_bytes(&self, py: Python<'_>, index: i64, data: &[u8]) -> PyResult<()> {
        self.lock()
            .put_bytes(position(index), data, 0, data.len())
            .map_err(|error| segment_error(py, &error))
    }
}
