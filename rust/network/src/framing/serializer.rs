//! The writing side of record framing as a state machine over buffers that others own.
//!
//! The serializer is the reference of `ResultPartition::append`: its bytes do not depend on the
//! sizes of the buffers that they are copied into.

use super::LENGTH_BYTES;
use crate::error::{Error, Result};

/// Capacity kept for the next record after a large one, in bytes.
const KEPT_CAPACITY_BYTES: usize = 128 << 10;

/// Progress of a copy into a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SerializationResult {
    /// Bytes remain and the buffer is full.
    PartialRecordMemorySegmentFull,
    /// The record is written and filled the buffer exactly: it needs no further buffer.
    FullRecordMemorySegmentFull,
    /// The record is written and space is left.
    FullRecord,
}

impl SerializationResult {
    /// Returns whether the whole record has been written.
    #[must_use]
    pub fn is_full_record(self) -> bool {
        self != Self::PartialRecordMemorySegmentFull
    }

    /// Returns whether the buffer has no space left.
    #[must_use]
    pub fn is_full_buffer(self) -> bool {
        self != Self::FullRecord
    }
}

/// Frames one record at a time and copies it into as many buffers as necessary.
#[derive(Debug, Default)]
pub struct RecordSerializer {
    framed: Vec<u8>,
    copied: usize,
}

impl RecordSerializer {
    /// Creates a serializer with nothing pending.
    #[must_use]
    pub fn new() -> Self {
        Self {
            framed: Vec::with_capacity(128),
            copied: 0,
        }
    }

    /// Takes the next record.
    ///
    /// # Errors
    /// `IllegalState` while the previous record is not fully copied, or if the record is too long
    /// for its length field.
    pub fn add_record(&mut self, payload: &[u8]) -> Result<()> {
        if self.has_serialized_data() {
            return Err(Error::IllegalState(
                "the previous record is still pending".into(),
            ));
        }
        let length = i32::try_from(payload.len()).map_err(|_| {
            Error::IllegalState(format!("a record of {} bytes is too long", payload.len()))
        })?;
        self.framed.clear();
        self.copied = 0;
        self.framed.extend_from_slice(&length.to_be_bytes());
        self.framed.extend_from_slice(payload);
        Ok(())
    }

    /// Copies as many pending bytes as fit to the front of `target`; returns the progress and the
    /// number of bytes written.
    pub fn copy_to(&mut self, target: &mut [u8]) -> (SerializationResult, usize) {
        let rest = self.pending();
        let count = rest.len().min(target.len());
        target[..count].copy_from_slice(&rest[..count]);
        self.advance(count);
        let result = match (self.has_serialized_data(), count == target.len()) {
            (true, _) => SerializationResult::PartialRecordMemorySegmentFull,
            (false, true) => SerializationResult::FullRecordMemorySegmentFull,
            (false, false) => SerializationResult::FullRecord,
        };
        (result, count)
    }

    /// Returns the bytes of the current record that are not yet copied.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        &self.framed[self.copied..]
    }

    /// Counts `count` pending bytes as copied.
    ///
    /// # Panics
    /// If fewer are pending.
    pub fn advance(&mut self, count: usize) {
        assert!(
            count <= self.framed.len() - self.copied,
            "bytes of no record"
        );
        self.copied += count;
        if !self.has_serialized_data() && self.framed.capacity() > KEPT_CAPACITY_BYTES {
            self.framed = Vec::new();
            self.copied = 0;
        }
    }

    /// Returns whether length or payload bytes of the current record are not yet copied.
    #[must_use]
    pub fn has_serialized_data(&self) -> bool {
        self.copied < self.framed.len()
    }

    /// Returns the length of the framed record, including its length bytes.
    #[must_use]
    pub fn framed_bytes(&self) -> usize {
        self.framed.len().max(LENGTH_BYTES)
    }
}
