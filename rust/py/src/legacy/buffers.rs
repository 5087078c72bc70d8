//! `penstock._core.Buffer`, `BufferBuilder` and `BufferConsumer`.

mod buffer;

use std::sync::{Mutex, MutexGuard, PoisonError};

use penstock_memory::{
    self as memory, BufferConsumerWithPartialRecordLength, BufferError, DataType, UniqueBuffer,
};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;

pub(crate) use self::buffer::Buffer;
use super::records::contents;
use crate::errors::exception;

/// A value that `recycle` or `close` drops, without the GIL as the drop may wake a listener.
#[derive(Debug)]
struct Held<T>(Mutex<Option<T>>);

impl<T: Send> Held<T> {
    fn new(value: T) -> Self {
        Self(Mutex::new(Some(value)))
    }

    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<R>(&self, py: Python<'_>, act: impl FnOnce(&mut T) -> PyResult<R>) -> PyResult<R> {
        match self.lock().as_mut() {
            Some(value) => act(value),
            None => Err(gone(py)),
        }
    }

    /// Drops the value; returns whether it was still there.
    fn release(&self, py: Python<'_>) -> bool {
        let taken = self.lock().take();
        py.detach(|| taken.map(drop).is_some())
    }
}

fn gone(py: Python<'_>) -> PyErr {
    exception(py, "IllegalStateError", "buffer has been recycled")
}

fn buffer_error(py: Python<'_>, error: &BufferError) -> PyErr {
    let message = error.to_string();
    match error {
        BufferError::OutOfBounds { .. } => PyIndexError::new_err(message),
        BufferError::Compressed | BufferError::Finished | BufferError::ConsumerExists => {
            exception(py, "IllegalStateError", &message)
        }
    }
}

/// The member of Python's `DataType` for a data type.
fn data_type_object(py: Python<'_>, kind: DataType) -> PyResult<Bound<'_, PyAny>> {
    py.import("penstock.network.data_type")?
        .getattr("DataType")?
        .call1((kind.ordinal(),))
}

fn position(value: i64) -> PyResult<usize> {
    usize::try_from(value)
        .map_err(|_| PyIndexError::new_err(format!("position {value} of a buffer")))
}

/// The writing end of a buffer that is read while it is written.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct BufferBuilder {
    builder: Held<memory::BufferBuilder>,
}

impl BufferBuilder {
    pub(crate) fn make(buffer: UniqueBuffer) -> Self {
        Self {
            builder: Held::new(buffer.into_builder()),
        }
    }
}

#[pymethods]
impl BufferBuilder {
    /// Largest number of bytes that it takes.
    #[getter]
    fn max_capacity(&self, py: Python<'_>) -> PyResult<usize> {
        self.builder.with(py, |builder| Ok(builder.max_capacity()))
    }

    /// Bytes appended, committed or not.
    #[getter]
    fn written_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.builder.with(py, |builder| Ok(builder.written_bytes()))
    }

    /// Bytes that still fit.
    #[getter]
    fn writable_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.builder
            .with(py, |builder| Ok(builder.writable_bytes()))
    }

    /// Returns whether nothing more fits.
    #[getter]
    fn is_full(&self, py: Python<'_>) -> PyResult<bool> {
        self.builder.with(py, |builder| Ok(builder.is_full()))
    }

    /// Returns whether `finish` was called.
    #[getter]
    fn is_finished(&self, py: Python<'_>) -> PyResult<bool> {
        self.builder.with(py, |builder| Ok(builder.is_finished()))
    }

    /// Copies the bytes that fit and returns their number; readers see them after `commit`.
    fn append(&self, py: Python<'_>, data: PyBuffer<u8>) -> PyResult<usize> {
        let data = &data.to_vec(py)?;
        self.builder.with(py, |builder| {
            builder
                .append(data)
                .map_err(|error| buffer_error(py, &error))
        })
    }

    /// Publishes the appended bytes.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.builder.with(py, |builder| {
            builder.commit();
            Ok(())
        })
    }

    /// Appends and publishes; returns the number of bytes taken.
    fn append_and_commit(&self, py: Python<'_>, data: PyBuffer<u8>) -> PyResult<usize> {
        let data = &data.to_vec(py)?;
        self.builder.with(py, |builder| {
            builder
                .append_and_commit(data)
                .map_err(|error| buffer_error(py, &error))
        })
    }

    /// Publishes everything and closes for writing; returns the bytes written in all.
    fn finish(&self, py: Python<'_>) -> PyResult<usize> {
        self.builder.with(py, |builder| Ok(builder.finish()))
    }

    /// Limits the buffer to `size` bytes, at least those written and at most the segment's.
    fn trim(&self, py: Python<'_>, size: i64) -> PyResult<()> {
        self.builder.with(py, |builder| {
            builder.trim(usize::try_from(size).unwrap_or(0));
            Ok(())
        })
    }

    /// Creates the reading end, starting at the writer's position.
    fn create_buffer_consumer(&self, py: Python<'_>) -> PyResult<BufferConsumer> {
        self.builder.with(py, |builder| {
            builder
                .create_buffer_consumer()
                .map(BufferConsumer::make)
                .map_err(|error| buffer_error(py, &error))
        })
    }

    /// Creates the reading end, starting at the first byte.
    fn create_buffer_consumer_from_beginning(&self, py: Python<'_>) -> PyResult<BufferConsumer> {
        self.builder.with(py, |builder| {
            builder
                .create_buffer_consumer_from_beginning()
                .map(BufferConsumer::make)
                .map_err(|error| buffer_error(py, &error))
        })
    }

    /// Drops the builder's handle; a second call does nothing.
    fn close(&self, py: Python<'_>) {
        self.builder.release(py);
    }
}

/// The reading end of a buffer that is read while it is written.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct BufferConsumer {
    held: Held<BufferConsumerWithPartialRecordLength>,
}

impl BufferConsumer {
    fn make(consumer: memory::BufferConsumer) -> Self {
        Self::with_partial_record(consumer, 0)
    }

    fn with_partial_record(consumer: memory::BufferConsumer, length: usize) -> Self {
        Self {
            held: Held::new(BufferConsumerWithPartialRecordLength::new(consumer, length)),
        }
    }
}

#[pymethods]
impl BufferConsumer {
    /// Creates the finished consumer of an event.
    #[staticmethod]
    fn of_event(event: &Bound<'_, PyAny>, data_type: i64) -> PyResult<Self> {
        let event = contents(event)?.into_owned();
        let kind = u8::try_from(data_type)
            .ok()
            .and_then(DataType::from_ordinal);
        match kind.filter(|kind| kind.is_event()) {
            Some(kind) => Ok(Self::make(memory::BufferConsumer::finished(
                memory::Buffer::from_bytes(event, kind),
            ))),
            None => Err(PyValueError::new_err(format!(
                "{data_type} is not the type of an event"
            ))),
        }
    }

    /// Number of leading bytes that belong to a record begun in an earlier buffer.
    #[getter]
    fn partial_record_length(&self, py: Python<'_>) -> PyResult<usize> {
        self.held.with(py, |held| Ok(held.partial_record_length))
    }

    #[setter]
    fn set_partial_record_length(&self, py: Python<'_>, length: i64) -> PyResult<()> {
        let length = position(length)?;
        self.held.with(py, |held| {
            held.partial_record_length = length;
            Ok(())
        })
    }

    /// Returns whether the writer had finished when `build` was last called.
    #[getter]
    fn is_finished(&self, py: Python<'_>) -> PyResult<bool> {
        self.held.with(py, |held| Ok(held.consumer.is_finished()))
    }

    /// Returns whether published bytes wait to be built.
    #[getter]
    fn is_data_available(&self, py: Python<'_>) -> PyResult<bool> {
        self.held
            .with(py, |held| Ok(held.consumer.is_data_available()))
    }

    /// Bytes published so far.
    #[getter]
    fn written_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.held.with(py, |held| Ok(held.consumer.written_bytes()))
    }

    /// Data type of the content.
    #[getter]
    fn data_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let kind = self.held.with(py, |held| Ok(held.consumer.data_type()))?;
        data_type_object(py, kind)
    }

    /// Returns whether the buffer carries records.
    #[getter]
    fn is_buffer(&self, py: Python<'_>) -> PyResult<bool> {
        self.held
            .with(py, |held| Ok(held.consumer.data_type().is_buffer()))
    }

    /// Returns a handle on the bytes published since the last call, perhaps none.
    fn build(&self, py: Python<'_>) -> PyResult<Buffer> {
        self.held
            .with(py, |held| Ok(Buffer::shared(held.consumer.build())))
    }

    /// Skips up to `count` published bytes; returns the number skipped.
    fn skip(&self, py: Python<'_>, count: i64) -> PyResult<usize> {
        let count = position(count)?;
        self.held.with(py, |held| Ok(held.consumer.skip(count)))
    }

    /// Skips the leading partial record; returns False if it goes on in the next buffer.
    fn skip_partial_record(&self, py: Python<'_>) -> PyResult<bool> {
        self.held.with(py, |held| Ok(held.skip_partial_record()))
    }

    /// Returns a consumer of the same bytes from the same position.
    fn copy(&self, py: Python<'_>) -> PyResult<Self> {
        self.held.with(py, |held| {
            let length = held.partial_record_length;
            Ok(Self::with_partial_record(held.consumer.copy(), length))
        })
    }

    /// Returns a consumer of the same bytes from another position of the segment.
    fn copy_with_reader_position(&self, py: Python<'_>, at: i64) -> PyResult<Self> {
        let position = position(at)?;
        self.held.with(py, |held| {
            if position > held.consumer.written_bytes() {
                return Err(PyIndexError::new_err(format!(
                    "position {position} of {} bytes written",
                    held.consumer.written_bytes()
                )));
            }
            let copy = held.consumer.copy_with_reader_position(position);
            Ok(Self::with_partial_record(copy, held.partial_record_length))
        })
    }

    /// Drops the consumer's handle; a second call does nothing.
    fn close(&self, py: Python<'_>) {
        self.held.release(py);
    }
}
