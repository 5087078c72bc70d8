//! The exception class of each error.
//!
//! The classes live in `penstock.errors`, so that users catch the same ones whichever runtime they
//! use.  Both here and through the C function table, an error of the data plane crosses to Python as
//! the number of its code.

use std::path::Path;

use penstock_memory::{PoolError, SegmentError};
use penstock_network::Error;
use pyo3::exceptions::{PyBufferError, PyIndexError, PyMemoryError, PyOSError, PyValueError};
use pyo3::prelude::*;

/// Creates an exception of the class `name` of `penstock.errors`.
pub(crate) fn exception(py: Python<'_>, name: &str, message: &str) -> PyErr {
    let made = py
        .import("penstock.errors")
        .and_then(|module| module.getattr(name))
        .and_then(|class| class.call1((message,)));
    match made {
        Ok(instance) => PyErr::from_value(instance),
        // A missing class is a defect; this error names it.
        Err(error) => error,
    }
}

/// The exception for an error of the data plane; Python has the table of codes and classes.
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

/// The exception for an error of a pool.
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

/// The exception for an error of the operating system at a file, as Python itself raises it.
pub(crate) fn os_error(error: std::io::Error, path: &Path) -> PyErr {
    let Some(number) = error.raw_os_error() else {
        return error.into();
    };
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    PyOSError::new_err((number, text.to_owned(), path.as_os_str().to_owned()))
}

/// The exception for an error of a memory segment.
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
