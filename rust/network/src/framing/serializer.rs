//! The writing side of record framing as a state machine over buffers that somebody else owns.
//!
//! It is the reference for what `ResultPartition::append` does in one go: the bytes do not depend
//! on the sizes of the buffers they are copied into.

use super::LENGTH_BYTES;
use crate::error::{Error, Result};

/// Memory kept for the next record after a large one, in bytes.
const KEPT_CAPACITY_BYTES: usize = 128 << 10;

/// Progress of a copy into a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SerializationResult {
    /// Bytes remain and the buffer is full.
    PartialRecordMemorySegmentFull,
    /// The record is written and filled the buffer exactly: no further buffer is needed for it.
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

/// Frames one record at a time and copies it into as many buffers as it takes.
#[derive(Debug, Default)]
pub struct RecordSerializer {
    framed: Vec<u8>,
    copied: usize,
}

impl RecordSerializer {
    /// Makes a serializer with nothing pending.
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
    /// `IllegalState` while the previous record is not wholly copied, or when the record is longer
    /// than a length can say.
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

    /// Copies what fits of the pending bytes to the front of `target`; returns how far it came
    /// and how many bytes were written.
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

    /// The bytes of the current record that are still to be copied.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        &self.framed[self.copied..]
    }

    /// Counts `count` of the pending bytes as copied.
    ///
    /// # Panics
    /// When fewer are pending.
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

    /// Returns whether length or payload bytes of the current record are still to be copied.
    #[must_use]
    pub fn has_serialized_data(&self) -> bool {
        self.copied < self.framed.len()
    }

    /// Bytes of the framed record in all, its length included.
    #[must_use]
    pub fn framed_bytes(&self) -> usize {
        self.framed.len().max(LENGTH_BYTES)
    }
}
