//! A reference-counted, read-only range of a segment: the unit of the data plane.

use std::fmt;
use std::ops::Deref;

use crate::data_type::DataType;
use crate::error::BufferError;
use crate::slot::SlotRef;

/// Bytes of a segment, shared by counting: the segment is recycled with the last handle.
///
/// A clone or a slice is another handle on the same segment with its own indexes.  The bytes of a
/// `Buffer` never change while it exists.
pub struct Buffer {
    /// This handle is one count of the slot.
    slot: SlotRef,
    /// Offset of the buffer's bytes in the segment.
    start: u32,
    /// Number of bytes that were read.
    reader_index: u32,
    /// Number of bytes.
    size: u32,
    data_type: DataType,
    compressed: bool,
}

impl Buffer {
    /// Creates a buffer of bytes outside of any pool; they are freed with the last handle.
    #[must_use]
    pub fn from_bytes(bytes: impl Into<Box<[u8]>>, data_type: DataType) -> Self {
        let bytes = bytes.into();
        let slot = SlotRef::from_bytes(bytes);
        Self::from_slot(slot, 0, slot.capacity(), data_type)
    }

    /// Takes over one count of `slot`.  The bytes `start..start + size` must not change any more.
    #[inline]
    pub(crate) fn from_slot(slot: SlotRef, start: u32, size: u32, data_type: DataType) -> Self {
        debug_assert!(start + size <= slot.capacity());
        Self {
            slot,
            start,
            reader_index: 0,
            size,
            data_type,
            compressed: false,
        }
    }

    pub(crate) fn slot(&self) -> SlotRef {
        self.slot
    }

    /// Returns the kind of data in the buffer.
    #[must_use]
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// Sets the data type of this handle; other handles keep theirs.
    pub fn set_data_type(&mut self, data_type: DataType) {
        self.data_type = data_type;
    }

    /// Returns whether the bytes are compressed.
    #[must_use]
    pub fn is_compressed(&self) -> bool {
        self.compressed
    }

    /// Sets whether the bytes are compressed.
    pub fn set_compressed(&mut self, compressed: bool) {
        self.compressed = compressed;
    }

    /// Returns the number of bytes, including those read.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size as usize
    }

    /// Returns the number of bytes the segment has room for, after this buffer's start.
    #[must_use]
    pub fn max_capacity(&self) -> usize {
        (self.slot.capacity() - self.start) as usize
    }

    /// Returns the offset of the buffer's bytes in their segment.
    #[must_use]
    pub fn memory_segment_offset(&self) -> usize {
        self.start as usize
    }

    /// Drops bytes at the end.
    ///
    /// # Errors
    ///
    /// [`BufferError::OutOfBounds`] if `size` exceeds the present size (the bytes behind may still
    /// be written) or is less than the bytes read.
    pub fn set_size(&mut self, size: usize) -> Result<(), BufferError> {
        if size > self.size() || size < self.reader_index() {
            return Err(self.out_of_bounds(0, size));
        }
        self.size = narrow(size);
        Ok(())
    }

    /// Returns the number of bytes that were read.
    #[must_use]
    pub fn reader_index(&self) -> usize {
        self.reader_index as usize
    }

    /// Sets the number of bytes read.
    ///
    /// # Errors
    ///
    /// [`BufferError::OutOfBounds`] if the buffer is smaller.
    pub fn set_reader_index(&mut self, index: usize) -> Result<(), BufferError> {
        if index > self.size() {
            return Err(self.out_of_bounds(index, 0));
        }
        self.reader_index = narrow(index);
        Ok(())
    }

    /// Returns the unread bytes.
    #[must_use]
    pub fn readable(&self) -> &[u8] {
        &self.as_slice()[self.reader_index()..]
    }

    /// Returns all bytes.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the range lies in the segment, as checked where `start` and `size` were set.
        let first = unsafe { self.slot.data().add(self.start as usize) };
        // SAFETY: the bytes were initialised at allocation, and while a handle exists nobody
        // writes into its range: the writer is beyond it.
        unsafe { std::slice::from_raw_parts(first, self.size as usize) }
    }

    /// Creates another handle on part of the bytes.
    ///
    /// # Errors
    ///
    /// [`BufferError::OutOfBounds`] if the buffer is smaller; [`BufferError::Compressed`] if the
    /// bytes can only be decompressed as a whole.
    pub fn read_only_slice(&self, index: usize, length: usize) -> Result<Self, BufferError> {
        if self.compressed {
            return Err(BufferError::Compressed);
        }
        match index.checked_add(length) {
            Some(end) if end <= self.size() => {
                self.slot.retain();
                Ok(Self::from_slot(
                    self.slot,
                    self.start + narrow(index),
                    narrow(length),
                    self.data_type,
                ))
            }
            _ => Err(self.out_of_bounds(index, length)),
        }
    }

    /// Notes that another process is about to read the bytes, so that the next writer of the
    /// segment may first fetch it back into the cache of its core.
    pub fn note_read_elsewhere(&self) {
        self.slot.note_read_elsewhere(self.start + self.size);
    }

    /// Swaps the segment for a free one of the network pool in the buffer's local pool; this one
    /// then returns to the network pool.  Returns false, without effect, if other handles exist, if
    /// all free segments are promised, or if the buffer has no local pool.
    ///
    /// A buffer that waits for another process thus blocks no writer of the pool.
    pub fn leave_local_pool(&mut self) -> bool {
        if !self.slot.has_one_handle() {
            return false;
        }
        // SAFETY: this is the only handle, and nobody can make another one of it meanwhile.
        unsafe { self.slot.leave_local_pool() }
    }

    /// Returns the number of handles on the segment; another thread may change it at once.
    #[must_use]
    pub fn ref_count(&self) -> usize {
        self.slot.refs() as usize
    }

    fn out_of_bounds(&self, index: usize, length: usize) -> BufferError {
        BufferError::OutOfBounds {
            index,
            length,
            size: self.size(),
        }
    }
}

/// Narrows a length that was checked against a segment's size, which is 32 bits wide.
fn narrow(length: usize) -> u32 {
    u32::try_from(length).expect("checked against a segment's size")
}

impl Clone for Buffer {
    #[inline]
    fn clone(&self) -> Self {
        self.slot.retain();
        Self {
            slot: self.slot,
            start: self.start,
            reader_index: self.reader_index,
            size: self.size,
            data_type: self.data_type,
            compressed: self.compressed,
        }
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        self.slot.release();
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("data_type", &self.data_type)
            .field("start", &self.start)
            .field("reader_index", &self.reader_index)
            .field("size", &self.size)
            .field("compressed", &self.compressed)
            .field("ref_count", &self.ref_count())
            .finish()
    }
}
