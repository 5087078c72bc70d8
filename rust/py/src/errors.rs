//! The exception class of each error.
//!
//! The classes live in `penstock.errors`, so that users catch the same ones whichever runtime they
//! use.  Errors of the data plane come to Python, here and through the C function table, by the
//! numbers of their kinds.

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

/// Turns an error of the data plane into its exception; Python has the table of the classes.
pub(crate) fn network_error(py: Python<'_>, error: &Error) -> PyErr {
    let made = py
        .import("penstock.network.error_codes")
        .and_then(|module| module.getattr("exception_of"))
        .and_then(|make| make.call1((error.code().number(), error.to_string())));
    match made {
        Ok(instance) => PyErr::from_value(instance),
        Err(defect) => defect,
    }
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
