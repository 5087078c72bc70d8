//! A segment with a single, writing holder: fresh from a pool, before it becomes a [`Buffer`].

use std::fmt;

use crate::buffer::Buffer;
use crate::buffer_builder::BufferBuilder;
use crate::data_type::DataType;
use crate::error::BufferError;
use crate::slot::SlotRef;

/// The only handle on a segment.  Dropping it recycles the segment.
pub struct UniqueBuffer {
    /// The only count of the slot.
    slot: SlotRef,
    /// Number of bytes written.
    size: u32,
}

impl UniqueBuffer {
    /// Creates a writable buffer of `capacity` bytes outside of any pool.
    #[must_use]
    pub fn unpooled(capacity: usize) -> Self {
        Self::from_slot(SlotRef::from_bytes(vec![0; capacity].into_boxed_slice()))
    }

    /// Takes over the only count of `slot`.
    #[inline]
    pub(crate) fn from_slot(slot: SlotRef) -> Self {
        debug_assert_eq!(slot.refs(), 1);
        Self { slot, size: 0 }
    }

    /// Returns the number of bytes that fit.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.slot.capacity() as usize
    }

    /// Returns the number of bytes written.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size as usize
    }

    /// Sets the number of bytes written.
    ///
    /// # Errors
    ///
    /// [`BufferError::OutOfBounds`] if the segment is smaller.
    pub fn set_size(&mut self, size: usize) -> Result<(), BufferError> {
        match u32::try_from(size) {
            Ok(narrow) if narrow <= self.slot.capacity() => {
                self.size = narrow;
                Ok(())
            }
            _ => Err(BufferError::OutOfBounds {
                index: 0,
                length: size,
                size: self.capacity(),
            }),
        }
    }

    /// Returns the whole segment, including unwritten bytes.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the memory was initialised at allocation and this is the only handle on it.
        unsafe { std::slice::from_raw_parts_mut(self.slot.data(), self.capacity()) }
    }

    /// Appends as many of `bytes` as fit and returns their number.
    pub fn append(&mut self, bytes: &[u8]) -> usize {
        let size = self.size();
        let count = bytes.len().min(self.capacity() - size);
        self.as_mut_slice()[size..size + count].copy_from_slice(&bytes[..count]);
        // `count` is at most the segment's capacity, which is 32 bits wide.
        self.size += u32::try_from(count).expect("at most the capacity");
        count
    }

    /// Turns the written bytes into a shared, read-only buffer.
    #[must_use]
    pub fn into_buffer(self, data_type: DataType) -> Buffer {
        let (slot, size) = self.into_parts();
        Buffer::from_slot(slot, 0, size, data_type)
    }

    /// Creates a builder that starts at the segment's first byte.
    #[must_use]
    pub fn into_builder(self) -> BufferBuilder {
        let (slot, _) = self.into_parts();
        BufferBuilder::from_slot(slot)
    }

    /// Takes the segment out without recycling it; the slot is owned alone afterwards.
    pub(crate) fn into_slot(self) -> SlotRef {
        let (slot, _) = self.into_parts();
        // SAFETY: this was the only handle.
        unsafe { slot.stop_counting() };
        slot
    }

    fn into_parts(self) -> (SlotRef, u32) {
        // The count moves into the handle that is made of it.
        let this = std::mem::ManuallyDrop::new(self);
        (this.slot, this.size)
    }
}

impl Drop for UniqueBuffer {
    #[inline]
    fn drop(&mut self) {
        self.slot.release();
    }
}

impl fmt::Debug for UniqueBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UniqueBuffer")
            .field("size", &self.size)
            .field("capacity", &self.capacity())
            .finish()
    }
}
