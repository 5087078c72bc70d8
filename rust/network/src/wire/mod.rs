//! The wire protocol: the messages between two executors after both have proved the token.
//!
//! ```text
//! frame   i32 total length incl. header | u32 magic 0xBADC0FFE | u8 message id | body
//! id  message               dir   body (big-endian)
//! 0   BufferResponse        P->C  receiver 16, subpartition i32, sequence i32, backlog i32,
//!                                 data type u8, compressed u8, size i32, then `size` bytes
//! 1   ErrorResponse         P->C  error, u8 has receiver, [receiver 16]
//! 2   PartitionRequest      C->P  partition 60, index start i32, index end i32, receiver 16,
//!                                 initial credit i32
//! 3   TaskEventRequest      C->P  i32 length, event, partition 60, receiver 16
//! 4   CancelPartitionRequest C->P receiver 16
//! 5   CloseRequest          C->P  -
//! 6   AddCredit             C->P  i32 credit, receiver 16
//! 7   ResumeConsumption     C->P  receiver 16
//! 8   AckAllUserRecordsProcessed C->P receiver 16
//! 9   BacklogAnnouncement   P->C  i32 backlog, receiver 16
//! 10  NewBufferSize         C->P  i32 size, receiver 16
//! 11  SegmentId             C->P  i32 subpartition, i32 segment, receiver 16
//! 12  UseSharedMemory       C->P  -
//! 13  BufferReference       P->C  the fields of a BufferResponse, u64 offset; no payload
//! 14  ReturnReferences      C->P  i32 count
//!
//! error   u16 code | i32 length of the message | message in UTF-8
//! ```
//!
//! C is the consumer, P the producer.  Messages 11 to 14 belong to the same-host path: see
//! `docs/formats/same-host.md`.
//!
//! Decoding never trusts a length: every frame kind has a limit, and a body must be consumed to
//! its last byte.

mod codec;
mod compression;
mod message;

pub use codec::{decode_body, encode};
pub use compression::{Compression, decompress};
pub use message::{ErrorBody, Message, PartitionRequest};

use crate::error::{Error, Result};

/// Second word of every frame.
pub const MAGIC: u32 = 0xBADC_0FFE;
/// Bytes of the frame header: length, magic, message id.
pub const HEADER_BYTES: usize = 9;
/// Bytes of a `BufferResponse` before its payload, frame header included.
pub const BUFFER_RESPONSE_BYTES: usize = HEADER_BYTES + 34;
/// Largest frame other than a `BufferResponse`, in bytes.
pub const MAX_CONTROL_FRAME_BYTES: usize = 1 << 20;
/// Message id of `BufferResponse`.
pub const BUFFER_RESPONSE: u8 = 0;
/// Bytes of a `BufferReference`, frame header included.
pub const BUFFER_REFERENCE_BYTES: usize = BUFFER_RESPONSE_BYTES + 8;
/// Message id of `BufferReference`.
pub const BUFFER_REFERENCE: u8 = 13;
/// Message id of `ReturnReferences`.
pub const RETURN_REFERENCES: u8 = 14;
/// The largest message id.
const LAST_ID: u8 = RETURN_REFERENCES;
/// Message id of `AddCredit`.
pub const ADD_CREDIT: u8 = 6;

/// Identifies one input channel on its connection.
pub type ReceiverId = [u8; 16];
/// Names one partition of one producer attempt: dataset 16, partition number 4, attempt 40.
pub type PartitionId = [u8; 60];

/// The fields of a frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of the frame after this header.
    pub body_bytes: usize,
    /// Message id.
    pub id: u8,
}

impl FrameHeader {
    /// Reads a frame header and checks it against the limits of its message kind.
    ///
    /// # Errors
    /// `CorruptStream` on a wrong magic number, an unknown id or a length outside the limits.
    pub fn decode(bytes: &[u8; HEADER_BYTES], max_payload_bytes: usize) -> Result<Self> {
        let [l0, l1, l2, l3, m0, m1, m2, m3, id] = *bytes;
        let magic = u32::from_be_bytes([m0, m1, m2, m3]);
        if magic != MAGIC {
            return Err(Error::CorruptStream(format!(
                "no frame begins with the magic number 0x{magic:08x}; does the peer run another \
                 version of penstock?"
            )));
        }
        if id > LAST_ID {
            return Err(Error::CorruptStream(format!(
                "no message has the id {id}; does the peer run another version of penstock?"
            )));
        }
        let length = i32::from_be_bytes([l0, l1, l2, l3]);
        let limit = match id {
            BUFFER_RESPONSE => BUFFER_RESPONSE_BYTES + max_payload_bytes,
            BUFFER_REFERENCE => BUFFER_REFERENCE_BYTES,
            _ => MAX_CONTROL_FRAME_BYTES,
        };
        match usize::try_from(length) {
            Ok(length) if (HEADER_BYTES..=limit).contains(&length) => Ok(Self {
                body_bytes: length - HEADER_BYTES,
                id,
            }),
            _ => Err(Error::CorruptStream(format!(
                "frame length {length} of message {id} outside {HEADER_BYTES}..={limit} bytes"
            ))),
        }
    }
}

/// The fields of a `BufferResponse` as they lie behind its frame header.
type BufferFields = [u8; BUFFER_RESPONSE_BYTES - HEADER_BYTES];

/// The fields of a `BufferResponse`, payload excepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferResponse {
    /// The input channel this buffer is for.
    pub receiver: ReceiverId,
    /// Subpartition it came from.
    pub subpartition: i32,
    /// Position in the channel's gap-free sequence; wraps at 2^31.
    pub sequence_number: i32,
    /// Data buffers that wait behind this one at the producer.
    pub backlog: i32,
    /// Ordinal of the data type.
    pub data_type: u8,
    /// True if the payload is compressed.
    pub compressed: bool,
    /// Payload bytes that follow.
    pub size: u32,
}

impl BufferResponse {
    /// Writes the frame header and the fields; the payload follows separately.
    #[must_use]
    pub fn encode(&self) -> [u8; BUFFER_RESPONSE_BYTES] {
        let mut bytes = [0; BUFFER_RESPONSE_BYTES];
        let total = BUFFER_RESPONSE_BYTES as u32 + self.size;
        bytes[0..4].copy_from_slice(&total.to_be_bytes());
        bytes[4..8].copy_from_slice(&MAGIC.to_be_bytes());
        bytes[8] = BUFFER_RESPONSE;
        self.put_fields(&mut bytes[HEADER_BYTES..]);
        bytes
    }

    fn put_fields(&self, fields: &mut [u8]) {
        fields[0..16].copy_from_slice(&self.receiver);
        fields[16..20].copy_from_slice(&self.subpartition.to_be_bytes());
        fields[20..24].copy_from_slice(&self.sequence_number.to_be_bytes());
        fields[24..28].copy_from_slice(&self.backlog.to_be_bytes());
        fields[28] = self.data_type;
        fields[29] = u8::from(self.compressed);
        fields[30..34].copy_from_slice(&self.size.to_be_bytes());
    }

    /// Reads the fields that follow the frame header and checks `size` against the frame length.
    ///
    /// # Errors
    /// `CorruptStream` when the size disagrees with the frame or the data type is unknown.
    pub fn decode(fields: &BufferFields, body_bytes: usize) -> Result<Self> {
        let response = Self::decode_fields(fields)?;
        if Some(response.size as usize) != body_bytes.checked_sub(fields.len()) {
            return Err(Error::CorruptStream(format!(
                "buffer size {} disagrees with a frame body of {body_bytes} bytes",
                response.size
            )));
        }
        Ok(response)
    }

    fn decode_fields(fields: &BufferFields) -> Result<Self> {
        let word = |at: usize| {
            i32::from_be_bytes([fields[at], fields[at + 1], fields[at + 2], fields[at + 3]])
        };
        let mut receiver = [0; 16];
        receiver.copy_from_slice(&fields[..16]);
        let size = word(30);
        let Ok(size) = u32::try_from(size) else {
            return Err(Error::CorruptStream(format!("a buffer of {size} bytes")));
        };
        if fields[28] > 11 {
            return Err(Error::CorruptStream(format!(
                "unknown data type {}",
                fields[28]
            )));
        }
        if fields[29] > 1 {
            return Err(Error::CorruptStream(format!(
                "compressed flag {}",
                fields[29]
            )));
        }
        Ok(Self {
            receiver,
            subpartition: word(16),
            sequence_number: word(20),
            backlog: word(24),
            data_type: fields[28],
            compressed: fields[29] == 1,
            size,
        })
    }
}

/// A buffer that lies in memory which the consumer has mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferReference {
    /// The fields of the buffer, whose payload does not follow.
    pub response: BufferResponse,
    /// Offset of the payload in that memory.
    pub offset: u64,
}

impl BufferReference {
    /// Writes the whole frame.
    #[must_use]
    pub fn encode(&self) -> [u8; BUFFER_REFERENCE_BYTES] {
        let mut bytes = [0; BUFFER_REFERENCE_BYTES];
        bytes[0..4].copy_from_slice(&(BUFFER_REFERENCE_BYTES as u32).to_be_bytes());
        bytes[4..8].copy_from_slice(&MAGIC.to_be_bytes());
        bytes[8] = BUFFER_REFERENCE;
        let (fields, offset) = bytes[HEADER_BYTES..].split_at_mut(size_of::<BufferFields>());
        self.response.put_fields(fields);
        offset.copy_from_slice(&self.offset.to_be_bytes());
        bytes
    }

    /// Reads the body of the frame.
    ///
    /// # Errors
    /// `CorruptStream` when the body has another length, or is not that of a buffer of records as
    /// they are: nothing else is referred to.
    pub fn decode(body: &[u8]) -> Result<Self> {
        let Some((fields, offset)) = body.split_first_chunk() else {
            return Err(Error::CorruptStream(
                "a reference ends within the fields of its buffer".into(),
            ));
        };
        let Ok(offset) = offset.try_into().map(u64::from_be_bytes) else {
            return Err(Error::CorruptStream(format!(
                "a reference of {} bytes",
                body.len()
            )));
        };
        let response = BufferResponse::decode_fields(fields)?;
        if response.compressed || response.size == 0 {
            return Err(Error::CorruptStream(
                "a reference to a compressed or empty buffer".into(),
            ));
        }
        Ok(Self { response, offset })
    }
}
