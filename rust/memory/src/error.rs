//! Errors, one small enum per kind of object.

use std::fmt;
use std::time::Duration;

/// A failed operation on a buffer or a buffer builder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BufferError {
    /// An index or a length outside of the buffer.
    OutOfBounds {
        /// The first byte requested.
        index: usize,
        /// Number of requested bytes.
        length: usize,
        /// Number of available bytes.
        size: usize,
    },
    /// Part of a compressed buffer was requested.
    Compressed,
    /// The builder is finished and accepts no bytes.
    Finished,
    /// The builder already has its consumer; copy that one.
    ConsumerExists,
}

impl fmt::Display for BufferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfBounds {
                index,
                length,
                size,
            } => {
                write!(
                    f,
                    "{length} bytes at {index} are outside of a buffer of {size} bytes"
                )
            }
            Self::Compressed => f.write_str("a compressed buffer cannot be sliced"),
            Self::Finished => f.write_str("the buffer builder is finished"),
            Self::ConsumerExists => {
                f.write_str("the buffer builder has a consumer already; copy the consumer instead")
            }
        }
    }
}

impl std::error::Error for BufferError {}

/// A failed operation on a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolError {
    /// The pool was destroyed: the requester is being cancelled.
    Destroyed,
    /// The operation is rejected because the network buffer pool was destroyed.
    NetworkPoolDestroyed,
    /// More segments are required than the network buffer pool can promise.
    Insufficient {
        /// Segments required by the refused request.
        required: usize,
        /// Segments that are promised to nobody.
        available: usize,
        /// Segments of the network buffer pool.
        total: usize,
        /// Bytes of a segment.
        segment_size: usize,
    },
    /// Others did not return promised segments in time.
    Timeout {
        /// Time that the request waited.
        timeout: Duration,
    },
    /// An invalid argument; the text names it.
    InvalidArgument(String),
    /// The memory of the network buffer pool could not be allocated.
    OutOfMemory {
        /// MiB to allocate.
        required_mib: usize,
        /// MiB that were allocated.
        allocated_mib: usize,
        /// MiB that are missing.
        missing_mib: usize,
    },
    /// The system rejects memory that other processes can read; the text is its error.
    NotShared(String),
    /// The waiting thread was told to stop.
    Interrupted,
    /// An object that should have been released still exists.
    PoolsRemain {
        /// Local pools that are still registered.
        pools: usize,
        /// Segments that are still promised.
        segments: usize,
    },
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Destroyed => f.write_str("Buffer pool has already been destroyed."),
            Self::NetworkPoolDestroyed => {
                f.write_str("Network buffer pool has already been destroyed.")
            }
            Self::Insufficient {
                required,
                available,
                total,
                segment_size,
            } => write!(
                f,
                "Insufficient number of network buffers: required {required}, but only \
                 {available} available. The total number of network buffers is currently set to \
                 {total} of {segment_size} bytes each. You can increase this number by setting \
                 'taskmanager.memory.network.segments'."
            ),
            Self::Timeout { timeout } => write!(
                f,
                "Timeout of {} ms while waiting for network buffers that other tasks hold; if \
                 this happens, raise 'taskmanager.memory.network.segments' or \
                 'taskmanager.network.memory.buffers-request-timeout'.",
                timeout.as_millis()
            ),
            Self::InvalidArgument(text) => f.write_str(text),
            Self::OutOfMemory {
                required_mib,
                allocated_mib,
                missing_mib,
            } => write!(
                f,
                "Could not allocate the memory for network buffers: required {required_mib} MiB, \
                 allocated {allocated_mib} MiB, missing {missing_mib} MiB."
            ),
            Self::NotShared(text) => write!(f, "no memory to share with other processes: {text}"),
            Self::Interrupted => f.write_str("the wait for network buffers was interrupted"),
            Self::PoolsRemain { pools, segments } => {
                write!(f, "{pools} pools and {segments} promised segments remain")
            }
        }
    }
}

impl std::error::Error for PoolError {}

/// A failed operation on a [`MemorySegment`](crate::MemorySegment).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentError {
    /// The segment was freed; `which` tells which of several took part.
    Freed {
        /// "this segment" or "the other segment".
        which: &'static str,
    },
    /// An access outside of the segment or of the caller's array.
    OutOfBounds {
        /// The first byte requested.
        index: i64,
        /// Number of requested bytes.
        length: i64,
        /// Number of available bytes.
        size: i64,
    },
    /// The target of a transfer has no room for the bytes.
    Overflow,
    /// The source of a transfer has fewer bytes than asked for.
    Underflow,
    /// The target of a transfer cannot be written.
    ReadOnlyBuffer,
    /// The operation does not exist for memory of this kind.
    Unsupported(&'static str),
    /// The operation does not fit the state of the segment.
    IllegalState(&'static str),
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Freed { which } => write!(f, "{which} has been freed"),
            Self::OutOfBounds {
                index,
                length,
                size,
            } => {
                write!(f, "{length} bytes at {index} are outside of {size} bytes")
            }
            Self::Overflow => f.write_str("the target has too little room"),
            Self::Underflow => f.write_str("the source has too few bytes"),
            Self::ReadOnlyBuffer => f.write_str("the target is read-only"),
            Self::Unsupported(text) | Self::IllegalState(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for SegmentError {}
