//! The one error type of the data plane.
//!
//! Every variant stands for one exception class of the Python layer, so that the binding maps
//! kinds and never parses texts.  Errors are `Clone` because one broken connection fails every
//! channel on it.

use penstock_memory::{BufferError, PoolError};

/// What went wrong in the data plane; the text of each variant names the peer, the partition or
/// the limit concerned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The network buffer pool cannot serve a request.
    #[error("{0}")]
    InsufficientBuffers(String),
    /// The task's network resources were closed: unwind quietly.
    #[error("{0}")]
    CancelTask(String),
    /// The connection to a producer was refused or lost.
    #[error("{0}")]
    PartitionConnection(String),
    /// The producer does not know the partition, and waiting for it did not help.
    #[error("{0}")]
    PartitionNotFound(String),
    /// The producing task failed; the text carries its cause.
    #[error("{0}")]
    ProducerFailed(String),
    /// Bytes that should be a record, an event or a frame are not one.
    #[error("{0}")]
    CorruptStream(String),
    /// A peer could not prove that it holds the token.
    #[error("{0}")]
    Authentication(String),
    /// The caller broke a rule of the interface.
    #[error("{0}")]
    IllegalState(String),
    /// The operating system refused something local: a socket, a thread, a spill file.
    #[error("{0}")]
    Io(String),
}

/// Result of a data plane operation.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The name of the exception class in `penstock.errors` that carries this error.
    #[must_use]
    pub fn class_name(&self) -> &'static str {
        match self {
            Self::InsufficientBuffers(_) => "InsufficientBuffersError",
            Self::CancelTask(_) => "CancelTaskError",
            Self::PartitionConnection(_) => "PartitionConnectionError",
            Self::PartitionNotFound(_) => "PartitionNotFoundError",
            Self::ProducerFailed(_) => "ProducerFailedError",
            Self::CorruptStream(_) => "CorruptStreamError",
            Self::Authentication(_) => "AuthenticationError",
            Self::IllegalState(_) | Self::Io(_) => "NetworkError",
        }
    }

    /// Wraps an error of the operating system, saying what was being attempted.
    pub(crate) fn io(doing: &str, error: &std::io::Error) -> Self {
        Self::Io(format!("{doing}: {error}"))
    }
}

impl From<PoolError> for Error {
    fn from(error: PoolError) -> Self {
        let text = error.to_string();
        match error {
            PoolError::Destroyed | PoolError::NetworkPoolDestroyed => Self::CancelTask(text),
            PoolError::Insufficient { .. } | PoolError::Timeout { .. } => {
                Self::InsufficientBuffers(text)
            }
            PoolError::OutOfMemory { .. } | PoolError::NotShared(_) => {
                Self::InsufficientBuffers(text)
            }
            PoolError::InvalidArgument(_)
            | PoolError::Interrupted
            | PoolError::PoolsRemain { .. } => Self::IllegalState(text),
        }
    }
}

impl From<BufferError> for Error {
    fn from(error: BufferError) -> Self {
        Self::IllegalState(error.to_string())
    }
}
