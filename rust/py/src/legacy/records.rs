//! `penstock._core.RecordSerializer` and `RecordDeserializer`: record framing by itself.
//!
//! The record path of tasks does not come through here; the readers and writers of the older
//! interface in `penstock.network` do.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use penstock_network::framing::{self, FramingLimits, LENGTH_BYTES, SpillDirectories};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::errors::network_error;

/// The bytes of an object: borrowed if they cannot change, else a copy.
pub(crate) fn contents<'a>(object: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, [u8]>> {
    match object.cast::<PyBytes>() {
        Ok(bytes) => Ok(Cow::Borrowed(bytes.as_bytes())),
        Err(_) => Ok(Cow::Owned(
            PyBuffer::<u8>::get(object)?.to_vec(object.py())?,
        )),
    }
}

/// The bytes of several objects.
pub(crate) fn owned(objects: &[Bound<'_, PyAny>]) -> PyResult<Vec<Vec<u8>>> {
    let copy = |object| Ok(contents(object)?.into_owned());
    objects.iter().map(copy).collect()
}

fn locked<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Frames one record at a time; `take` returns it piece by piece.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct RecordSerializer {
    state: Mutex<framing::RecordSerializer>,
}

#[pymethods]
impl RecordSerializer {
    #[new]
    fn new() -> Self {
        Self {
            state: Mutex::new(framing::RecordSerializer::new()),
        }
    }

    /// Returns whether the record has bytes that `take` has not returned.
    #[getter]
    fn has_serialized_data(&self) -> bool {
        locked(&self.state).has_serialized_data()
    }

    /// Frames a record; raises IllegalStateError while the one before it is pending.
    fn add_record(&self, py: Python<'_>, payload: &Bound<'_, PyAny>) -> PyResult<()> {
        locked(&self.state)
            .add_record(&contents(payload)?)
            .map_err(|error| network_error(py, &error))
    }

    /// Returns up to `limit` of the pending bytes and removes them.
    fn take<'py>(&self, py: Python<'py>, limit: usize) -> Bound<'py, PyBytes> {
        let mut state = locked(&self.state);
        let count = state.pending().len().min(limit);
        let bytes = PyBytes::new(py, &state.pending()[..count]);
        state.advance(count);
        bytes
    }
}

/// Reads the records from the buffers of one channel.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct RecordDeserializer {
    state: Mutex<framing::RecordDeserializer>,
}

#[pymethods]
impl RecordDeserializer {
    #[new]
    #[pyo3(
        signature = (temp_directories = Vec::new(), spill_threshold_bytes = 5 << 20),
        text_signature = "(temp_directories=(), spill_threshold_bytes=5242880)"
    )]
    fn new(temp_directories: Vec<PathBuf>, spill_threshold_bytes: usize) -> Self {
        let limits = FramingLimits {
            spill_directories: SpillDirectories::new(temp_directories),
            spill_threshold_bytes,
            ..FramingLimits::default()
        };
        Self {
            state: Mutex::new(framing::RecordDeserializer::new(limits)),
        }
    }

    /// Returns whether the last record is incomplete.
    #[getter]
    fn has_pending_bytes(&self) -> bool {
        locked(&self.state).has_pending()
    }

    /// Returns the payloads that end in `buffer`; keeps the bytes of an incomplete one.
    fn records_of<'py>(
        &self,
        py: Python<'py>,
        buffer: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let buffer: &[u8] = &contents(buffer)?;
        let records = PyList::empty(py);
        let mut state = locked(&self.state);
        let whole = state
            .feed(buffer)
            .map_err(|error| network_error(py, &error))?;
        if let Some(spanning) = state.spanning() {
            records.append(PyBytes::new(py, spanning))?;
        }
        let mut rest = &buffer[whole];
        while let Some((length, behind)) = rest.split_first_chunk::<LENGTH_BYTES>() {
            let (payload, next) = behind.split_at(u32::from_be_bytes(*length) as usize);
            records.append(PyBytes::new(py, payload))?;
            rest = next;
        }
        Ok(records)
    }

    /// Returns the pending bytes as received, to feed them to a new deserializer.
    fn unconsumed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = locked(&self.state)
            .unconsumed()
            .map_err(|error| network_error(py, &error))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Drops pending bytes and the spill file.
    fn clear(&self) {
        locked(&self.state).clear();
    }
}
