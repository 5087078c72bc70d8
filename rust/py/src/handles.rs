//! Handles behind the opaque pointers of the C function table.

use std::sync::{Arc, Mutex, TryLockError};

use penstock_network::framing::FramingLimits;
use penstock_network::{Error, InputGate, RecordReader, ResultPartition};

use crate::home::Home;

/// `PsPartition`: a partition, shared with the Python object that owns the capsule.
#[derive(Clone, Debug)]
pub(crate) struct PartitionHandle {
    pub(crate) partition: Arc<ResultPartition>,
}

/// `PsGate`: a gate and the reader that cuts its buffers into records.
#[derive(Debug)]
pub(crate) struct GateHandle {
    pub(crate) gate: InputGate,
    limits: FramingLimits,
    /// None until the first read.  Only the task's thread reads; the lock turns a second reader
    /// into an error instead of undefined behaviour.  The buffer that was read last returns with it.
    reader: Home<Mutex<Option<RecordReader>>>,
}

impl GateHandle {
    pub(crate) fn new(gate: InputGate, limits: FramingLimits) -> Self {
        Self {
            gate,
            limits,
            reader: Home::new(Mutex::new(None)),
        }
    }

    /// Calls `read` with the reader.
    ///
    /// # Errors
    ///
    /// `IllegalState` while another thread reads, and the errors of `read`.
    pub(crate) fn with_reader<T>(
        &self,
        read: impl FnOnce(&mut RecordReader) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut reader = match self.reader.try_lock() {
            Ok(reader) => reader,
            // A reader whose thread has panicked holds whole records or none, so it can go on.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(Error::IllegalState(
                    "two threads read one input gate".into(),
                ));
            }
        };
        let made = || RecordReader::new(self.gate.clone(), &self.limits);
        read(reader.get_or_insert_with(made))
    }
}
