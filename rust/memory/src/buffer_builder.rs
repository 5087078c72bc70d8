//! The writing end of a buffer that is read while it is written.
//!
//! One [`BufferBuilder`] appends and one thread reads through a [`BufferConsumer`], without locks:
//! they share only the [position marker](crate::position_marker).

use std::fmt;

use crate::buffer::Buffer;
use crate::buffer_consumer::BufferConsumer;
use crate::data_type::DataType;
use crate::error::BufferError;
use crate::position_marker::{Position, PositionMarker};
use crate::slot::SlotRef;

/// Long copies use one instruction of the processor, which on some is more than ten times slower if
/// the target lies less than this behind the source, modulo a page.
const ALIASED_BYTES: usize = 64;
const PAGE_BYTES: usize = 4 << 10;
/// Bytes copied at once in that case: short copies are always fast.
const PIECE_BYTES: usize = 1 << 10;

/// Appends bytes to a segment and publishes them.
pub struct BufferBuilder {
    /// One count of the slot.
    slot: SlotRef,
    /// Number of bytes written, published or not.
    written: u32,
    /// Number of bytes that may be written.
    max_capacity: u32,
    finished: bool,
    has_consumer: bool,
}

impl BufferBuilder {
    /// Takes over the one count of `slot`, whose marker must be reset.
    pub(crate) fn from_slot(slot: SlotRef) -> Self {
        let max_capacity = slot.capacity();
        debug_assert!(slot.has_one_handle());
        Self {
            slot,
            written: 0,
            max_capacity,
            finished: false,
            has_consumer: false,
        }
    }

    /// Fetches the segment into the cache of this core, if another process has read it.
    ///
    /// For writers of single records; a long append by itself takes over the cache lines that it
    /// overwrites.
    ///
    /// # Panics
    ///
    /// If bytes were written, or there is a consumer.
    pub fn fetch_back(&mut self) {
        assert!(
            self.written == 0 && !self.has_consumer,
            "a builder in use was fetched back"
        );
        // SAFETY: nothing is published, and there is no other handle.
        unsafe { self.slot.claim() };
    }

    /// Copies as many of `bytes` as fit and returns their number; they are not visible yet.
    ///
    /// # Errors
    ///
    /// [`BufferError::Finished`] after [`finish`](Self::finish).
    pub fn append(&mut self, bytes: &[u8]) -> Result<usize, BufferError> {
        if self.finished {
            return Err(BufferError::Finished);
        }
        let count = bytes.len().min(self.writable_bytes());
        // SAFETY: `written` is at most the capacity.
        let mut target = unsafe { self.slot.data().add(self.written as usize) };
        let behind = target.addr().wrapping_sub(bytes.as_ptr().addr()) % PAGE_BYTES;
        let piece_bytes = if (1..ALIASED_BYTES).contains(&behind) {
            PIECE_BYTES
        } else {
            usize::MAX
        };
        for piece in bytes[..count].chunks(piece_bytes) {
            // SAFETY: `count` bytes fit behind `written`; the bytes there belong to this builder
            // alone until it publishes them, so no slice that anyone reads overlaps them.
            unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), target, piece.len()) };
            // SAFETY: as above.
            target = unsafe { target.add(piece.len()) };
        }
        // `count` is at most the capacity, which is 32 bits wide.
        self.written += u32::try_from(count).expect("at most the capacity");
        Ok(count)
    }

    /// Publishes all written bytes.
    #[inline]
    pub fn commit(&mut self) {
        let position = if self.finished {
            Position::finished(self.written)
        } else {
            Position::open(self.written)
        };
        self.slot.marker().publish(position);
    }

    /// Appends and publishes; see [`append`](Self::append).
    ///
    /// # Errors
    ///
    /// [`BufferError::Finished`] after [`finish`](Self::finish).
    pub fn append_and_commit(&mut self, bytes: &[u8]) -> Result<usize, BufferError> {
        let count = self.append(bytes)?;
        self.commit();
        Ok(count)
    }

    /// Publishes all bytes and the end; returns the number of bytes written.
    pub fn finish(&mut self) -> usize {
        self.finished = true;
        self.commit();
        self.written as usize
    }

    /// Returns whether [`finish`](Self::finish) was called.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Returns whether the buffer is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.written == self.max_capacity
    }

    /// Returns the number of bytes that still fit.
    #[must_use]
    pub fn writable_bytes(&self) -> usize {
        (self.max_capacity - self.written) as usize
    }

    /// Returns the number of bytes written, published or not.
    #[must_use]
    pub fn written_bytes(&self) -> usize {
        self.written as usize
    }

    /// Returns the number of bytes that may be written in total.
    #[must_use]
    pub fn max_capacity(&self) -> usize {
        self.max_capacity as usize
    }

    /// Limits the capacity to `size`, within the bytes written and the segment's size.
    pub fn trim(&mut self, size: usize) {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.max_capacity = size.max(self.written).min(self.slot.capacity());
    }

    /// Creates the consumer of bytes appended from now on.
    ///
    /// # Errors
    ///
    /// [`BufferError::ConsumerExists`] the second time.
    pub fn create_buffer_consumer(&mut self) -> Result<BufferConsumer, BufferError> {
        self.create_consumer_at(self.written)
    }

    /// Creates the consumer of all bytes of the segment.
    ///
    /// # Errors
    ///
    /// [`BufferError::ConsumerExists`] the second time.
    pub fn create_buffer_consumer_from_beginning(&mut self) -> Result<BufferConsumer, BufferError> {
        self.create_consumer_at(0)
    }

    fn create_consumer_at(&mut self, position: u32) -> Result<BufferConsumer, BufferError> {
        if self.has_consumer {
            return Err(BufferError::ConsumerExists);
        }
        self.has_consumer = true;
        self.slot.retain();
        let segment = Buffer::from_slot(self.slot, 0, 0, DataType::DataBuffer);
        Ok(BufferConsumer::following(segment, position))
    }

    /// Returns the segment's first byte, for a writer beyond the C function table.
    ///
    /// Such a writer writes bytes from [`written_bytes`](Self::written_bytes) up to
    /// [`max_capacity`](Self::max_capacity), publishes through [`marker_ptr`](Self::marker_ptr),
    /// and the builder learns of them by [`adopt_published`](Self::adopt_published).
    #[must_use]
    pub fn base_ptr(&self) -> *mut u8 {
        self.slot.data()
    }

    /// Returns the address of the marker's integer; a writer stores with release ordering.
    #[cfg(not(feature = "loom"))]
    #[must_use]
    pub fn marker_ptr(&self) -> *mut i32 {
        self.slot.marker().as_ptr()
    }

    /// Returns the marker's address under loom, where it has no plain integer, as its identity.
    #[cfg(feature = "loom")]
    #[must_use]
    pub fn marker_ptr(&self) -> *mut i32 {
        std::ptr::from_ref(self.slot.marker()).cast_mut().cast()
    }

    /// Returns the position marker.
    #[must_use]
    pub fn marker(&self) -> &PositionMarker {
        self.slot.marker()
    }

    /// Takes over the bytes published through [`marker_ptr`](Self::marker_ptr) and returns the
    /// number of bytes written.
    ///
    /// # Panics
    ///
    /// If the marker exceeds the capacity: the writer has overrun the segment.
    pub fn adopt_published(&mut self) -> usize {
        let position = self.slot.marker().observe();
        let bytes = position.bytes();
        assert!(
            bytes <= self.max_capacity,
            "a writer published {bytes} bytes of {}",
            self.max_capacity
        );
        self.written = bytes;
        self.finished |= position.is_finished();
        bytes as usize
    }
}

impl Drop for BufferBuilder {
    fn drop(&mut self) {
        self.slot.release();
    }
}

impl fmt::Debug for BufferBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferBuilder")
            .field("written", &self.written)
            .field("max_capacity", &self.max_capacity)
            .field("finished", &self.finished)
            .finish()
    }
}
