//! The exception class of each error.
//!
//! The classes live in `penstock.errors`, so that users catch the same ones whichever runtime they
//! use.  The C function table names them by their Python names.

use penstock_memory::{PoolError, SegmentError};
use penstock_network::Error;
use pyo3::exceptions::{PyBufferError, PyIndexError, PyMemoryError, PyValueError};
use pyo3::prelude::*;

/// Makes an exception of the class `name` of `penstock.errors`.
pub(crate) fn exception(py: Python<'_>, name: &str, message: &str) -> PyErr {
    let made = py
        .import("penstock.errors")
        .and_then(|module| module.getattr(name))
        .and_then(|class| class.call1((message,)));
    match made {
        Ok(instance) => PyErr::from_value(instance),
        // A class that is missing is a defect; its own error says which one.
        Err(error) => error,
    }
}

/// The name of the exception class for an error of the data plane.
pub(crate) fn class_name(error: &Error) -> &'static str {
    match error {
        Error::IllegalState(_) => "IllegalStateError",
        other => other.class_name(),
    }
}

/// Turns an error of the data plane into its exception.
pub(crate) fn network_error(py: Python<'_>, error: &Error) -> PyErr {
    exception(py, class_name(error), &error.to_string())
}

/// Turns an error of a pool into its exception.
pub(crate) fn pool_error(py: Python<'_>, error: &PoolError) -> PyErr {
    let message = error.to_string();
    match error {
        PoolError::Destroyed => exception(py, "CancelTaskError", &message),
        PoolError::Insufficient { .. } | PoolError::Timeout { .. } => {
            exception(py, "InsufficientBuffersError", &message)
        }
        PoolError::InvalidArgument(_) => PyValueError::new_err(message),
        PoolError::OutOfMemory { .. } | PoolError::NotShared(_) => PyMemoryError::new_err(message),
        PoolError::NetworkPoolDestroyed
        | PoolError::Interrupted
        | PoolError::PoolsRemain { .. } => exception(py, "IllegalStateError", &message),
    }
}

/// Turns an error of a memory segment into its exception.
pub(crate) fn segment_error(py: Python<'_>, error: &SegmentError) -> PyErr {
    let message = error.to_string();
    match error {
        SegmentError::OutOfBounds { .. } => PyIndexError::new_err(message),
        SegmentError::Overflow | SegmentError::Underflow | SegmentError::ReadOnlyBuffer => {
            PyBufferError::new_err(message)
        }
        SegmentError::Freed { .. }
        | SegmentError::Unsupported(_)
        | SegmentError::IllegalState(_) => exception(py, "IllegalStateError", &message),
    }
}
