//! `penstock._core.ResultPartition`.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyWeakrefMethods, PyWeakrefReference};

use crate::capi::event_type;
use crate::errors::{exception, network_error};
use crate::handles::PartitionHandle;
use crate::home::Home;
use crate::legacy::records::owned;
use crate::waiting::{at_most, interruptibly};

/// The output of one subtask for all consumers of one exchange.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct ResultPartition {
    partition: Home<Arc<penstock_network::ResultPartition>>,
    /// One for the life of the partition: callers of the C function table borrow what it points to.
    handle: Py<PyCapsule>,
    /// Weak reference to the record writer, which holds pointers into the open buffers.
    writer: Mutex<Option<Py<PyWeakrefReference>>>,
}

impl ResultPartition {
    pub(crate) fn new(
        py: Python<'_>,
        partition: Arc<penstock_network::ResultPartition>,
    ) -> PyResult<Self> {
        let handle = PartitionHandle {
            partition: Arc::clone(&partition),
        };
        let handle = PyCapsule::new_with_value(py, handle, c"penstock.partition")?.unbind();
        Ok(Self {
            partition: Home::new(partition),
            handle,
            writer: Mutex::new(None),
        })
    }

    /// The record writer, if it still exists.
    fn writer<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.as_ref()?.bind(py).upgrade()
    }

    /// Makes the record writer forget the open buffers, which are about to be finished.
    fn void_cursors(&self, py: Python<'_>) -> PyResult<()> {
        match self.writer(py) {
            Some(writer) => writer.call_method0("_void").map(drop),
            None => Ok(()),
        }
    }
}

#[pymethods]
impl ResultPartition {
    #[getter]
    fn _handle(&self, py: Python<'_>) -> Py<PyCapsule> {
        self.handle.clone_ref(py)
    }

    /// Registers the writer that writes in place; it is told before open buffers are finished.
    fn _attach(&self, writer: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = writer.py();
        if self.writer(py).is_some() {
            let message = "the result partition has a record writer already";
            return Err(exception(py, "IllegalStateError", message));
        }
        let reference = PyWeakrefReference::new(writer)?.unbind();
        *self.writer.lock().unwrap_or_else(PoisonError::into_inner) = Some(reference);
        Ok(())
    }

    /// Number of consumers.
    #[getter]
    fn num_subpartitions(&self) -> usize {
        self.partition.num_subpartitions()
    }

    /// Milliseconds between two flushes; -1 is no flush by time, 0 a flush after every record.
    #[getter]
    fn flush_timeout_ms(&self) -> i64 {
        self.partition.flush_timeout_ms()
    }

    /// Buffers and events that wait to be read.
    #[getter]
    fn buffers_queued(&self, py: Python<'_>) -> usize {
        py.detach(|| self.partition.buffers_queued())
    }

    /// Segments that the writer, the queues or the network hold.
    #[getter]
    fn buffers_in_use(&self, py: Python<'_>) -> usize {
        py.detach(|| self.partition.buffers_in_use())
    }

    /// Segments that the partition may hold now.
    #[getter]
    fn buffers_total(&self, py: Python<'_>) -> usize {
        py.detach(|| self.partition.buffers_total())
    }

    /// Milliseconds that the writer has waited for buffers in the middle of records, up to now.
    #[getter]
    fn hard_back_pressured_ms(&self) -> u64 {
        u64::try_from(self.partition.hard_back_pressured().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the longest of these waits since the last call, in milliseconds.
    fn take_longest_wait_ms(&self) -> u64 {
        u64::try_from(self.partition.take_longest_wait().as_millis()).unwrap_or(u64::MAX)
    }

    /// Buffers and events added since the start.
    #[getter]
    fn buffers_out(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.partition.totals().0)
    }

    /// Regions that a blocking partition has written to its file.
    #[getter]
    fn regions_written(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.partition.regions_written())
    }

    /// Sends a serialized event to every subpartition, after everything written so far.
    ///
    /// Keeps the GIL, as nothing waits: all tasks of a worker send barriers at the same time, and
    /// a thread that releases the GIL waits for it behind all others.
    fn broadcast_event(&self, py: Python<'_>, event: &[u8], data_type: i64) -> PyResult<()> {
        self.void_cursors(py)?;
        event_type(data_type)
            .and_then(|data_type| self.partition.broadcast_event(event, data_type))
            .map_err(|error| network_error(py, &error))
    }

    /// Sends a priority event that overtakes all waiting buffers; returns the contents of the data
    /// buffers that it overtakes, by subpartition.
    fn overtake<'py>(
        &self,
        py: Python<'py>,
        event: &[u8],
        data_type: i64,
    ) -> PyResult<Vec<Vec<Bound<'py, PyBytes>>>> {
        self.void_cursors(py)?;
        let overtaken = py.detach(|| self.partition.overtake(event, event_type(data_type)?));
        contents(py, overtaken)
    }

    /// Replaces the timeoutable barrier of a checkpoint by a priority event wherever the barrier
    /// still waits; returns what `overtake` does.
    fn time_out_barrier<'py>(
        &self,
        py: Python<'py>,
        checkpoint_id: i64,
        event: &[u8],
        data_type: i64,
    ) -> PyResult<Vec<Vec<Bound<'py, PyBytes>>>> {
        let overtaken = py.detach(|| {
            self.partition
                .time_out_barrier(checkpoint_id, event, event_type(data_type)?)
        });
        contents(py, overtaken)
    }

    /// Waits until the readers have taken the timeoutable barrier of a checkpoint; returns False
    /// after the timeout.
    fn wait_barrier_taken(
        &self,
        py: Python<'_>,
        checkpoint_id: i64,
        timeout_ms: i64,
    ) -> PyResult<bool> {
        let done = interruptibly(py, at_most(timeout_ms), |slice| {
            let taken = self.partition.wait_barrier_taken(checkpoint_id, slice);
            taken.then_some(())
        })?;
        Ok(done.is_some())
    }

    /// Queues the restored in-flight data of a subpartition before everything written later.
    fn recover(
        &self,
        py: Python<'_>,
        subpartition: i64,
        buffers: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let buffers = owned(&buffers)?;
        let subpartition = usize::try_from(subpartition).map_err(|_| {
            let count = self.partition.num_subpartitions();
            let message = format!("subpartition {subpartition} of a partition with {count}");
            exception(py, "IllegalStateError", &message)
        })?;
        py.detach(|| self.partition.recover(subpartition, &buffers))
            .map_err(|error| network_error(py, &error))
    }

    /// Makes every byte written so far readable.
    fn flush_all(&self, py: Python<'_>) {
        py.detach(|| self.partition.flush_all());
    }

    /// Sends EndOfPartition to every subpartition.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        self.void_cursors(py)?;
        py.detach(|| self.partition.finish())
            .map_err(|error| network_error(py, &error))
    }

    /// Fails the readers with an error that names the cause, and a waiting writer with
    /// CancelTaskError.
    fn fail(&self, py: Python<'_>, cause: &str) {
        py.detach(|| self.partition.fail(cause));
    }

    /// Drops everything; a second call does nothing.
    fn release(&self, py: Python<'_>) {
        if !self.partition.is_left() {
            py.detach(|| self.partition.release());
        }
    }

    /// Returns the next event that a consumer has sent to this task, or None after the timeout.
    fn next_task_event<'py>(
        &self,
        py: Python<'py>,
        timeout_ms: i64,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let taken = interruptibly(py, at_most(timeout_ms), |slice| {
            self.partition.next_task_event(slice).transpose()
        })?;
        match taken {
            None => Ok(None),
            Some(Ok(event)) => Ok(Some(PyBytes::new(py, &event))),
            Some(Err(error)) => Err(network_error(py, &error)),
        }
    }

    /// Returns whether a record can start without waiting for a buffer.
    fn is_available(&self) -> bool {
        self.partition.is_available()
    }

    /// Waits until a record can start without waiting; returns False after the timeout.
    fn wait_available(&self, py: Python<'_>, timeout_ms: i64) -> PyResult<bool> {
        let done = interruptibly(py, at_most(timeout_ms), |slice| {
            self.partition.wait_available(slice).then_some(())
        })?;
        Ok(done.is_some())
    }

    /// Waits until every reader has received everything or the partition is released; returns
    /// False after the timeout.
    fn wait_consumed(&self, py: Python<'_>, timeout_ms: i64) -> PyResult<bool> {
        let done = interruptibly(py, at_most(timeout_ms), |slice| {
            self.partition.wait_consumed(slice).then_some(())
        })?;
        Ok(done.is_some())
    }
}

/// The overtaken buffers as Python bytes, by subpartition.
fn contents(
    py: Python<'_>,
    overtaken: penstock_network::Result<Vec<Vec<Vec<u8>>>>,
) -> PyResult<Vec<Vec<Bound<'_, PyBytes>>>> {
    let overtaken = overtaken.map_err(|error| network_error(py, &error))?;
    let bytes = |buffers: Vec<Vec<u8>>| {
        buffers
            .iter()
            .map(|buffer| PyBytes::new(py, buffer))
            .collect()
    };
    Ok(overtaken.into_iter().map(bytes).collect())
}
