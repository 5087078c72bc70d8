//! The messages of the protocol as values, except for `BufferResponse`, whose payload never passes
//! through a message, and `BufferReference`, which resembles it.

use super::{PartitionId, ReceiverId};

/// Every message except `BufferResponse` and `BufferReference`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A channel failed, or, without a receiver, the whole connection.
    ErrorResponse {
        /// Error at the producer.
        error: ErrorBody,
        /// The channel concerned; `None` is fatal for the connection.
        receiver: Option<ReceiverId>,
    },
    /// A consumer's request for one subpartition.
    PartitionRequest(PartitionRequest),
    /// An event for the producing task.
    TaskEventRequest {
        /// The serialized event.
        event: Vec<u8>,
        /// The partition whose producer is addressed.
        partition: Box<PartitionId>,
        /// The sending channel.
        receiver: ReceiverId,
    },
    /// The channel was closed before its end.
    CancelPartitionRequest {
        /// The channel.
        receiver: ReceiverId,
    },
    /// No channel is left on this connection.
    CloseRequest,
    /// The consumer has obtained buffers.
    AddCredit {
        /// Number of credits; positive.
        credit: i32,
        /// The channel.
        receiver: ReceiverId,
    },
    /// Consumption resumes after a blocking event.
    ResumeConsumption {
        /// The channel.
        receiver: ReceiverId,
    },
    /// Every user record has been processed.
    AckAllUserRecordsProcessed {
        /// The channel.
        receiver: ReceiverId,
    },
    /// A producer without credit reports its backlog.
    BacklogAnnouncement {
        /// Waiting data buffers.
        backlog: i32,
        /// The channel.
        receiver: ReceiverId,
    },
    /// The wanted size of the next buffers.
    NewBufferSize {
        /// Size in bytes.
        size: i32,
        /// The channel.
        receiver: ReceiverId,
    },
    /// The next tiered-storage segment.
    SegmentId {
        /// Subpartition.
        subpartition: i32,
        /// Segment.
        segment: i32,
        /// The channel.
        receiver: ReceiverId,
    },
    /// The consumer has mapped the producer's memory: buffers may come as references.
    UseSharedMemory,
    /// The consumer has what the oldest references referred to.
    ReturnReferences {
        /// Number of references; positive.
        count: i32,
    },
}

/// A consumer's request for a range of subpartitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionRequest {
    /// The partition.
    pub partition: Box<PartitionId>,
    /// First subpartition.
    pub index_start: i32,
    /// Last subpartition, inclusive.
    pub index_end: i32,
    /// The channel that asks.
    pub receiver: ReceiverId,
    /// Buffers the channel owns already.
    pub initial_credit: i32,
}

/// An error as it crosses the wire: nothing executable, and no names of classes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ErrorBody {
    /// The number of its kind, see [`crate::ErrorCode`].
    pub code: u16,
    /// The message.
    pub message: String,
}
