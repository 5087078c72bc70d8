//! Whole ranges of segments: transfers, comparison, exchange.

use std::cmp::Ordering;
use std::io::{self, Read, Write};

use super::{MemorySegment, OTHER, THIS, end_of};
use crate::error::SegmentError;

impl MemorySegment {
    /// Copies `length` bytes at `index` to `target[offset..]`.
    ///
    /// # Errors
    ///
    /// [`SegmentError::OutOfBounds`] for a range outside of `target`, checked first, or of the
    /// segment; [`SegmentError::Freed`].
    pub fn get_bytes(
        &self,
        index: usize,
        target: &mut [u8],
        offset: usize,
        length: usize,
    ) -> Result<(), SegmentError> {
        let end = end_of(offset, length, target.len())?;
        target[offset..end].copy_from_slice(self.range(index, length, THIS)?);
        Ok(())
    }

    /// Copies `source[offset..][..length]` to `index`.
    ///
    /// # Errors
    ///
    /// [`SegmentError::OutOfBounds`] for a range outside of `source`, checked first, or of the
    /// segment; [`SegmentError::Freed`].
    pub fn put_bytes(
        &mut self,
        index: usize,
        source: &[u8],
        offset: usize,
        length: usize,
    ) -> Result<(), SegmentError> {
        let end = end_of(offset, length, source.len())?;
        self.range_mut(index, length, THIS)?
            .copy_from_slice(&source[offset..end]);
        Ok(())
    }

    /// Copies `length` bytes at `index` to a byte buffer's position and advances the position.
    ///
    /// `target` is `None` if the byte buffer is read-only.
    ///
    /// # Errors
    ///
    /// [`SegmentError::ReadOnlyBuffer`]; [`SegmentError::Overflow`] if the byte buffer has no room;
    /// [`SegmentError::Freed`]; [`SegmentError::OutOfBounds`].  An error keeps the position.
    pub fn get_to_byte_buffer(
        &self,
        index: usize,
        target: Option<&mut [u8]>,
        position: &mut usize,
        length: usize,
    ) -> Result<(), SegmentError> {
        let bytes = self.range(index, length, THIS)?;
        let target = target.ok_or(SegmentError::ReadOnlyBuffer)?;
        let end = end_of(*position, length, target.len()).map_err(|_| SegmentError::Overflow)?;
        target[*position..end].copy_from_slice(bytes);
        *position = end;
        Ok(())
    }

    /// Copies `length` bytes from a byte buffer's position to `index` and advances the position.
    ///
    /// # Errors
    ///
    /// [`SegmentError::Underflow`] if the byte buffer has fewer; [`SegmentError::Freed`];
    /// [`SegmentError::OutOfBounds`].  An error keeps the position.
    pub fn put_from_byte_buffer(
        &mut self,
        index: usize,
        source: &[u8],
        position: &mut usize,
        length: usize,
    ) -> Result<(), SegmentError> {
        let range = self.range_mut(index, length, THIS)?;
        let end = end_of(*position, length, source.len()).map_err(|_| SegmentError::Underflow)?;
        range.copy_from_slice(&source[*position..end]);
        *position = end;
        Ok(())
    }

    /// Writes `length` bytes at `index`; the inner result is the output's.
    ///
    /// # Errors
    ///
    /// [`SegmentError::Freed`]; [`SegmentError::OutOfBounds`].
    pub fn get_to_output(
        &self,
        output: &mut impl Write,
        index: usize,
        length: usize,
    ) -> Result<io::Result<()>, SegmentError> {
        let bytes = self.range(index, length, THIS)?;
        Ok(output.write_all(bytes))
    }

    /// Reads `length` bytes to `index`; the inner result is the input's.
    ///
    /// # Errors
    ///
    /// [`SegmentError::Freed`]; [`SegmentError::OutOfBounds`].
    pub fn put_from_input(
        &mut self,
        input: &mut impl Read,
        index: usize,
        length: usize,
    ) -> Result<io::Result<()>, SegmentError> {
        let bytes = self.range_mut(index, length, THIS)?;
        Ok(input.read_exact(bytes))
    }

    /// Copies `length` bytes at `index` to `target_index` of another segment.
    ///
    /// # Errors
    ///
    /// [`SegmentError::Freed`], which names the segment; [`SegmentError::OutOfBounds`].
    pub fn copy_to(
        &self,
        index: usize,
        target: &mut Self,
        target_index: usize,
        length: usize,
    ) -> Result<(), SegmentError> {
        let source = self.range(index, length, THIS)?;
        target
            .range_mut(target_index, length, OTHER)?
            .copy_from_slice(source);
        Ok(())
    }

    /// Compares `length` bytes as unsigned numbers: negative, 0 or positive.
    ///
    /// # Errors
    ///
    /// [`SegmentError::Freed`], which names the segment; [`SegmentError::OutOfBounds`].
    pub fn compare(
        &self,
        other: &Self,
        index: usize,
        other_index: usize,
        length: usize,
    ) -> Result<i32, SegmentError> {
        let mine = self.range(index, length, THIS)?;
        let theirs = other.range(other_index, length, OTHER)?;
        let words = length - length % 8;
        match mine[..words].cmp(&theirs[..words]) {
            Ordering::Less => return Ok(-1),
            Ordering::Greater => return Ok(1),
            Ordering::Equal => {}
        }
        let differing = mine[words..]
            .iter()
            .zip(&theirs[words..])
            .find(|(a, b)| a != b);
        Ok(differing.map_or(0, |(&a, &b)| i32::from(a) - i32::from(b)))
    }

    /// Compares ranges of two lengths: the common prefix, then the lengths.
    ///
    /// # Errors
    ///
    /// [`SegmentError::Freed`], which names the segment; [`SegmentError::OutOfBounds`].
    pub fn compare_lengths(
        &self,
        other: &Self,
        index: usize,
        other_index: usize,
        length: usize,
        other_length: usize,
    ) -> Result<i64, SegmentError> {
        let prefix = self.compare(other, index, other_index, length.min(other_length))?;
        let by_length = || {
            let difference = length.abs_diff(other_length);
            let difference = i64::try_from(difference).unwrap_or(i64::MAX);
            if length < other_length {
                -difference
            } else {
                difference
            }
        };
        Ok(if prefix == 0 {
            by_length()
        } else {
            i64::from(prefix)
        })
    }

    /// Exchanges `length` bytes with another segment, through `scratch`.
    ///
    /// # Errors
    ///
    /// [`SegmentError::OutOfBounds`], also for a scratch array that is too small;
    /// [`SegmentError::Freed`], which names the segment.  An error moves no bytes.
    pub fn swap_bytes(
        &mut self,
        scratch: &mut [u8],
        other: &mut Self,
        index: usize,
        other_index: usize,
        length: usize,
    ) -> Result<(), SegmentError> {
        end_of(0, length, scratch.len())?;
        let mine = self.range_mut(index, length, THIS)?;
        let theirs = other.range_mut(other_index, length, OTHER)?;
        mine.swap_with_slice(theirs);
        Ok(())
    }

    /// Returns whether `length` bytes are equal.
    ///
    /// # Errors
    ///
    /// [`SegmentError::Freed`], which names the segment; [`SegmentError::OutOfBounds`].
    pub fn equal_to(
        &self,
        other: &Self,
        index: usize,
        other_index: usize,
        length: usize,
    ) -> Result<bool, SegmentError> {
        Ok(self.range(index, length, THIS)? == other.range(other_index, length, OTHER)?)
    }
}
