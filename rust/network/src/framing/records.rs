//! Walking over records that lie back to back.
//!
//! Where the next record begins is known only once the length of this one has been loaded, so a
//! walk runs at the pace of one load after the other.  Many streams hold records of one length,
//! though: while a length repeats itself, the next record is looked for where the last length
//! says, and the processor goes ahead while the lengths are still being compared.

use super::LENGTH_BYTES;

/// The payloads of the whole records at the front of some bytes, in order and in place.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    rest: &'a [u8],
    /// The length bytes of the last record.
    length: [u8; LENGTH_BYTES],
    /// Bytes of the last record with its length.
    stride: usize,
}

impl<'a> Records<'a> {
    /// Walks over `bytes`, which begin with a record's length; part of a record ends the walk.
    #[must_use]
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            length: [0; LENGTH_BYTES],
            stride: LENGTH_BYTES,
        }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let length = self.rest.first_chunk::<LENGTH_BYTES>()?;
        if *length != self.length {
            keep_branch();
            self.length = *length;
            self.stride = LENGTH_BYTES + u32::from_be_bytes(*length) as usize;
        }
        let (record, rest) = self.rest.split_at_checked(self.stride)?;
        self.rest = rest;
        Some(&record[LENGTH_BYTES..])
    }
}

/// Keeps the branch that calls it from becoming a choice between two strides, which would wait for
/// both.
#[cold]
fn keep_branch() {}
