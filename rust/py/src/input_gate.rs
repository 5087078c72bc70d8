//! `penstock._core.InputGate`.

use std::ffi::CStr;

use penstock_network::Next;
use penstock_network::framing::FramingLimits;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule};

use crate::capi::timeout;
use crate::errors::{exception, network_error};
use crate::handles::GateHandle;
use crate::home::Home;
use crate::legacy::records::owned;
use crate::waiting::interruptibly_detached;

/// Name of the capsules that hold a `GateHandle`.
const NAME: &CStr = c"penstock.gate";

/// The result of `take_gathered`.
type Gathered<'py> = (Vec<usize>, Option<(Bound<'py, PyBytes>, u64, u64)>);

/// The input of one task, from one exchange or several.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct InputGate {
    pub(crate) gate: Home<penstock_network::InputGate>,
    /// One for the life of the gate: callers of the C function table borrow what it points to.
    handle: Py<PyCapsule>,
}

impl InputGate {
    pub(crate) fn new(
        py: Python<'_>,
        gate: penstock_network::InputGate,
        limits: FramingLimits,
    ) -> PyResult<Self> {
        let handle = GateHandle::new(gate.clone(), limits);
        let handle = PyCapsule::new_with_value(py, handle, NAME)?.unbind();
        Ok(Self {
            gate: Home::new(gate),
            handle,
        })
    }

    /// Returns the reader of the gate's records.
    fn reading(&self, py: Python<'_>) -> PyResult<&GateHandle> {
        let handle = self.handle.bind(py).pointer_checked(Some(NAME))?;
        // SAFETY: a capsule of this name holds a `GateHandle`, and `self` holds the capsule.
        Ok(unsafe { handle.cast::<GateHandle>().as_ref() })
    }

    /// The index of a channel.
    fn channel(&self, py: Python<'_>, channel: i64) -> PyResult<usize> {
        let count = self.gate.num_channels();
        let index = usize::try_from(channel).ok().filter(|&index| index < count);
        index.ok_or_else(|| {
            let message = format!("channel {channel} of a gate with {count}");
            exception(py, "IllegalStateError", &message)
        })
    }
}

#[pymethods]
impl InputGate {
    #[getter]
    fn _handle(&self, py: Python<'_>) -> Py<PyCapsule> {
        self.handle.clone_ref(py)
    }

    /// Number of channels.
    #[getter]
    fn num_channels(&self) -> usize {
        self.gate.num_channels()
    }

    /// Requests the data of all producers; a second call does nothing.
    fn request_partitions(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.gate.request_partitions())
            .map_err(|error| network_error(py, &error))
    }

    /// Returns channel, data type and bytes of the next buffer.
    ///
    /// Returns None after the timeout, after `wakeup`, and when everything has been read.  A
    /// negative timeout means no timeout.
    fn next_buffer<'py>(
        &self,
        py: Python<'py>,
        timeout_ms: i64,
    ) -> PyResult<Option<(usize, u8, Bound<'py, PyBytes>)>> {
        let next = py
            .detach(|| {
                interruptibly_detached(timeout(timeout_ms), |left| {
                    match self.gate.next_buffer(left) {
                        Ok(Next::Nothing) => None,
                        other => Some(other),
                    }
                })
            })?
            .transpose()
            .map_err(|error| network_error(py, &error))?;
        Ok(match next {
            Some(Next::Buffer(next)) => {
                let bytes = PyBytes::new(py, next.buffer.as_slice());
                Some((next.channel, next.buffer.data_type().ordinal(), bytes))
            }
            None | Some(Next::Nothing | Next::Woken | Next::End) => None,
        })
    }

    /// Makes the read that waits now, or else the next one, return without a buffer.
    ///
    /// Keeps the GIL: a thread that wakes hundreds of readers would otherwise wait for it after
    /// each of them, behind the readers that it has woken.
    fn wakeup(&self) {
        self.gate.wakeup();
    }

    /// Lets a channel continue after a blocking event.
    fn resume_consumption(&self, py: Python<'_>, channel: i64) -> PyResult<()> {
        let channel = self.channel(py, channel)?;
        py.detach(|| self.gate.resume_consumption(channel))
            .map_err(|error| network_error(py, &error))
    }

    /// Lets several channels continue after blocking events.  Keeps the GIL, as nothing waits.
    fn resume_all(&self, py: Python<'_>, channels: Vec<i64>) -> PyResult<()> {
        let channels = channels
            .into_iter()
            .map(|channel| self.channel(py, channel));
        let channels = channels.collect::<PyResult<Vec<usize>>>()?;
        self.gate
            .resume_all(&channels)
            .map_err(|error| network_error(py, &error))
    }

    /// Counts the aligned barriers that equal `event` instead of returning them, except for the
    /// last of the `left` that are expected.
    ///
    /// If `event` is None, counts those that equal the next aligned barrier.  Only for the thread
    /// that reads.
    fn gather_barriers(&self, py: Python<'_>, event: Option<&[u8]>, left: usize) -> PyResult<()> {
        let gathered = self.reading(py)?.with_reader(|reader| {
            reader.gather(event.unwrap_or_default(), left);
            Ok(())
        });
        gathered.map_err(|error| network_error(py, &error))
    }

    /// Ends the counting that `gather_barriers` has begun.
    ///
    /// Returns the channels whose barriers were counted.  If `event` was None, also returns the
    /// first barrier: its bytes, its age in nanoseconds, and how many bytes were read before it.
    fn take_gathered<'py>(&self, py: Python<'py>) -> PyResult<Gathered<'py>> {
        let gathered = self
            .reading(py)?
            .with_reader(|reader| Ok(reader.take_gathered()))
            .map_err(|error| network_error(py, &error))?;
        let first = gathered.first.map(|first| {
            let age_ns = u64::try_from(first.came.elapsed().as_nanos()).unwrap_or(u64::MAX);
            (PyBytes::new(py, &first.event), age_ns, first.bytes)
        });
        Ok((gathered.channels, first))
    }

    /// Sends a serialized task event to the producers of all channels that have not ended.
    fn send_task_event(&self, py: Python<'_>, event: &[u8]) -> PyResult<()> {
        py.detach(|| self.gate.send_task_event(event))
            .map_err(|error| network_error(py, &error))
    }

    /// Queues the restored in-flight data of a channel before everything that will arrive.
    fn recover(
        &self,
        py: Python<'_>,
        channel: i64,
        buffers: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let buffers = owned(&buffers)?;
        let channel = self.channel(py, channel)?;
        py.detach(|| self.gate.recover(channel, &buffers))
            .map_err(|error| network_error(py, &error))
    }

    /// Starts to copy the data that belongs to an unaligned checkpoint.
    fn start_persisting(&self, py: Python<'_>, checkpoint_id: i64) -> PyResult<()> {
        py.detach(|| self.gate.start_persisting(checkpoint_id))
            .map_err(|error| network_error(py, &error))
    }

    /// Stops copying data for this checkpoint and those before it.
    fn stop_persisting(&self, py: Python<'_>, checkpoint_id: i64) {
        py.detach(|| self.gate.stop_persisting(checkpoint_id));
    }

    /// Returns the data of a channel copied since the last call, and whether it is complete.
    fn take_persisted<'py>(
        &self,
        py: Python<'py>,
        channel: i64,
    ) -> PyResult<(Vec<Bound<'py, PyBytes>>, bool)> {
        let channel = self.channel(py, channel)?;
        let (kept, complete) = py
            .detach(|| self.gate.take_persisted(channel))
            .map_err(|error| network_error(py, &error))?;
        let kept = kept.iter().map(|buffer| PyBytes::new(py, buffer));
        Ok((kept.collect(), complete))
    }

    /// Lets the announced barrier of a checkpoint overtake the data before it in its channel;
    /// returns False if the barrier does not wait there.
    fn prioritize_barrier(
        &self,
        py: Python<'_>,
        channel: i64,
        checkpoint_id: i64,
    ) -> PyResult<bool> {
        let channel = self.channel(py, channel)?;
        py.detach(|| self.gate.prioritize_barrier(channel, checkpoint_id))
            .map_err(|error| network_error(py, &error))
    }

    /// Returns the bytes of a channel that a StreamInputProcessor has taken and that belong to
    /// records it has not handed on.  Only for the thread that reads.
    fn unconsumed<'py>(&self, py: Python<'py>, channel: i64) -> PyResult<Bound<'py, PyBytes>> {
        let channel = self.channel(py, channel)?;
        let handle = self.reading(py)?;
        let bytes = py
            .detach(|| handle.with_reader(|reader| reader.unconsumed(channel)))
            .map_err(|error| network_error(py, &error))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Tells the producers how large their next buffers should be, from the throughput since the
    /// last call.
    ///
    /// Returns for each debloated gate the size in bytes and the time, in milliseconds, that the
    /// buffers in flight take to be read.
    #[pyo3(signature = (share = 1.0))]
    fn debloat(&self, py: Python<'_>, share: f64) -> Vec<(u32, u64)> {
        py.detach(|| self.gate.debloat(share))
    }

    /// Returns the number of buffers that wait to be read, how many of them lie in the gate's own
    /// memory, and how many that memory can hold now.
    fn buffer_usage(&self, py: Python<'_>) -> (usize, usize, usize) {
        py.detach(|| self.gate.buffer_usage())
    }

    /// Returns the bytes and buffers read from producers in this executor, then the bytes and
    /// buffers read over connections.
    fn received(&self) -> (u64, u64, u64, u64) {
        let found = self.gate.received();
        let (local, remote) = (found.local_bytes, found.remote_bytes);
        (local, found.local_buffers, remote, found.remote_buffers)
    }

    /// Returns whether every channel has delivered EndOfPartition.
    fn is_finished(&self) -> bool {
        self.gate.is_finished()
    }

    /// Recycles the buffer that was read last; for the reading thread when an error has ended it.
    fn release_batch(&self, py: Python<'_>) -> PyResult<()> {
        let handle = self.reading(py)?;
        py.detach(|| {
            handle.with_reader(|reader| {
                reader.release_batch();
                Ok(())
            })
        })
        .map_err(|error| network_error(py, &error))
    }

    /// Recycles all buffers; waiting and later reads raise CancelTaskError.
    fn close(&self, py: Python<'_>) {
        if !self.gate.is_left() {
            py.detach(|| self.gate.close());
        }
    }
}
