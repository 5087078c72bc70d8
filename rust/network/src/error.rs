//! The one error type of the data plane.
//!
//! Every variant has a number ([`ErrorCode`]) that peers and Python receive, so that nobody parses
//! texts.  Errors are `Clone` because one broken connection fails every channel on it.

use penstock_memory::{BufferError, PoolError};

/// Errors of the data plane; the text of each variant names the peer, the partition or the limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The network buffer pool cannot serve a request.
    #[error("{0}")]
    InsufficientBuffers(String),
    /// The task's network resources were closed: unwind silently.
    #[error("{0}")]
    CancelTask(String),
    /// The connection to a producer was refused or lost.
    #[error("{0}")]
    PartitionConnection(String),
    /// The producer does not know the partition, even after a wait.
    #[error("{0}")]
    PartitionNotFound(String),
    /// The producing task failed; the text contains its cause.
    #[error("{0}")]
    ProducerFailed(String),
    /// Bytes are not a valid record, event or frame.
    #[error("{0}")]
    CorruptStream(String),
    /// A peer could not prove that it holds the token.
    #[error("{0}")]
    Authentication(String),
    /// The caller violated a rule of the interface.
    #[error("{0}")]
    IllegalState(String),
    /// The operating system rejected a local operation: on a socket, a thread, a spill file.
    #[error("{0}")]
    Io(String),
}

/// The numbers of the error kinds, for the wire and for Python.
///
/// `penstock/network/error_codes.py` has the same table, with the exception class of each.  Append
/// only: a number never changes its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum ErrorCode {
    /// [`Error::InsufficientBuffers`].
    InsufficientBuffers = 1,
    /// [`Error::CancelTask`].
    CancelTask = 2,
    /// [`Error::PartitionConnection`].
    PartitionConnection = 3,
    /// [`Error::PartitionNotFound`].
    PartitionNotFound = 4,
    /// [`Error::ProducerFailed`].
    ProducerFailed = 5,
    /// [`Error::CorruptStream`].
    CorruptStream = 6,
    /// [`Error::Authentication`].
    Authentication = 7,
    /// [`Error::IllegalState`].
    IllegalState = 8,
    /// [`Error::Io`].
    Io = 9,
}

impl ErrorCode {
    /// The kinds in the order of their numbers, from 1.
    const ALL: [Self; 9] = [
        Self::InsufficientBuffers,
        Self::CancelTask,
        Self::PartitionConnection,
        Self::PartitionNotFound,
        Self::ProducerFailed,
        Self::CorruptStream,
        Self::Authentication,
        Self::IllegalState,
        Self::Io,
    ];

    /// Returns the number.
    #[must_use]
    pub fn number(self) -> u16 {
        self as u16
    }

    /// Returns the kind of a number; a newer peer may have more.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.number() == number)
    }
}

/// Result of a data plane operation.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns the number of the kind outside of Rust.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::InsufficientBuffers(_) => ErrorCode::InsufficientBuffers,
            Self::CancelTask(_) => ErrorCode::CancelTask,
            Self::PartitionConnection(_) => ErrorCode::PartitionConnection,
            Self::PartitionNotFound(_) => ErrorCode::PartitionNotFound,
            Self::ProducerFailed(_) => ErrorCode::ProducerFailed,
            Self::CorruptStream(_) => ErrorCode::CorruptStream,
            Self::Authentication(_) => ErrorCode::Authentication,
            Self::IllegalState(_) => ErrorCode::IllegalState,
            Self::Io(_) => ErrorCode::Io,
        }
    }

    /// Returns the consumer's error for an error of the producer's side with the number `code`.
    pub(crate) fn at_consumer(code: u16, text: String) -> Self {
        match ErrorCode::from_number(code) {
            Some(ErrorCode::CancelTask) => Self::CancelTask(text),
            Some(ErrorCode::CorruptStream) => Self::CorruptStream(text),
            Some(ErrorCode::PartitionNotFound) => Self::PartitionNotFound(text),
            Some(ErrorCode::ProducerFailed) => Self::ProducerFailed(text),
            // Neither the producer nor the connection is at fault, so blame the exchange.
            _ => Self::PartitionConnection(text),
        }
    }

    /// Wraps an error of the operating system with the attempted action.
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
