//! Iteration over adjacent records.
//!
//! The start of the next record is known only once the length of this one has been loaded, so the
//! iteration runs at the pace of one load after another.  Many streams hold records of one length,
//! though: while a length repeats itself, the iteration assumes it for the next record, and the
//! processor continues while the lengths are still being compared.

use super::LENGTH_BYTES;

/// Iterator over the payloads of the leading whole records, in order and in place.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    rest: &'a [u8],
    /// The length bytes of the last record.
    length: [u8; LENGTH_BYTES],
    /// Bytes of the last record with its length.
    stride: usize,
}

impl<'a> Records<'a> {
    /// Iterates over `bytes`, which begin with a record's length, up to an incomplete record.
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

/// Prevents the calling branch from becoming a choice between two strides, which would wait for
/// both.
#[cold]
fn keep_branch() {}
