//! The reading end of a buffer that is read while it is written.

use crate::buffer::Buffer;
use crate::data_type::DataType;
use crate::position_marker::Position;

/// Source of the writer's position for a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// From the marker of the segment's builder.
    Builder,
    /// None: the buffer was finished before the consumer was created.
    Finished,
}

/// Builds read-only slices of the bytes that a segment's writer has published.
///
/// Every published byte is part of exactly one slice, in order.
#[derive(Debug)]
pub struct BufferConsumer {
    /// A handle on the segment, with the first byte and the data type.
    segment: Buffer,
    progress: Progress,
    /// The marker as of the last [`build`](Self::build); only `build` reads newer values, so that a
    /// slice and its flag always belong together.
    seen: Position,
    /// Number of bytes built or skipped.
    reader_position: u32,
}

impl BufferConsumer {
    /// Creates a consumer of a finished buffer, such as an event.
    #[must_use]
    pub fn finished(buffer: Buffer) -> Self {
        let size = u32::try_from(buffer.size()).expect("a buffer is smaller than 4 GiB");
        Self {
            segment: buffer,
            progress: Progress::Finished,
            seen: Position::finished(size),
            reader_position: 0,
        }
    }

    /// Creates a consumer that follows the builder of `segment`, starting at `position`.
    pub(crate) fn following(segment: Buffer, position: u32) -> Self {
        Self {
            segment,
            progress: Progress::Builder,
            seen: Position::open(0),
            reader_position: position,
        }
    }

    /// Returns the bytes published since the last call; there may be none.
    pub fn build(&mut self) -> Buffer {
        self.refresh();
        let end = self.seen.bytes();
        // A consumer at an unpublished position sees nothing before it is published.
        let length = end.saturating_sub(self.reader_position);
        let slot = self.segment.slot();
        slot.retain();
        let start = u32::try_from(self.segment.memory_segment_offset())
            .expect("a segment is smaller than 4 GiB");
        let mut buffer =
            Buffer::from_slot(slot, start + self.reader_position, length, self.data_type());
        buffer.set_compressed(self.segment.is_compressed());
        self.reader_position += length;
        buffer
    }

    /// Skips up to `bytes` published bytes and returns their number.
    pub fn skip(&mut self, bytes: usize) -> usize {
        self.refresh();
        let available = self.seen.bytes().saturating_sub(self.reader_position);
        let skipped = u32::try_from(bytes).unwrap_or(u32::MAX).min(available);
        self.reader_position += skipped;
        skipped as usize
    }

    /// Creates a consumer of the same bytes from the same position, independent afterwards.
    #[must_use]
    pub fn copy(&self) -> Self {
        self.copy_with_reader_position(self.reader_position as usize)
    }

    /// Creates a consumer of the same bytes from another position.
    ///
    /// # Panics
    ///
    /// If the position is outside of the segment.
    #[must_use]
    pub fn copy_with_reader_position(&self, position: usize) -> Self {
        assert!(
            position <= self.segment.max_capacity(),
            "position {position} is out of bounds"
        );
        Self {
            segment: self.segment.clone(),
            progress: self.progress,
            seen: self.seen,
            reader_position: u32::try_from(position).expect("inside of a segment"),
        }
    }

    /// Returns whether the writer was finished as of the last [`build`](Self::build); may be stale,
    /// if false.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.seen.is_finished()
    }

    /// Returns whether a [`build`](Self::build) now would return bytes.
    #[must_use]
    pub fn is_data_available(&self) -> bool {
        self.reader_position < self.latest().bytes()
    }

    /// Returns the number of published bytes that are not built yet.
    #[must_use]
    pub fn readable_bytes(&self) -> usize {
        self.latest().bytes().saturating_sub(self.reader_position) as usize
    }

    /// Returns the number of bytes published so far, built or not.
    #[must_use]
    pub fn written_bytes(&self) -> usize {
        self.latest().bytes() as usize
    }

    /// Returns whether no byte was built yet and the consumer starts at the segment's first byte.
    #[must_use]
    pub fn is_start_of_data_buffer(&self) -> bool {
        self.reader_position == 0 && self.data_type().is_buffer()
    }

    /// Returns the kind of the bytes.
    #[must_use]
    pub fn data_type(&self) -> DataType {
        self.segment.data_type()
    }

    /// Returns whether the bytes are records.
    #[must_use]
    pub fn is_buffer(&self) -> bool {
        self.data_type().is_buffer()
    }

    fn latest(&self) -> Position {
        match self.progress {
            Progress::Builder => self.segment.slot().marker().observe(),
            Progress::Finished => self.seen,
        }
    }

    fn refresh(&mut self) {
        self.seen = self.latest();
    }
}

/// A consumer and the number of its leading bytes that belong to an earlier buffer's record.
#[derive(Debug)]
pub struct BufferConsumerWithPartialRecordLength {
    /// The consumer.
    pub consumer: BufferConsumer,
    /// Number of leading bytes that end, or continue, an earlier record.
    pub partial_record_length: usize,
}

impl BufferConsumerWithPartialRecordLength {
    /// Pairs a consumer with the length of its leading partial record.
    #[must_use]
    pub fn new(consumer: BufferConsumer, partial_record_length: usize) -> Self {
        Self {
            consumer,
            partial_record_length,
        }
    }

    /// Skips the leading partial record, so that reading starts with a whole one.
    ///
    /// Returns false if the partial record fills the buffer and continues in the next one.
    pub fn skip_partial_record(&mut self) -> bool {
        if self.partial_record_length == 0 || !self.consumer.is_start_of_data_buffer() {
            return true;
        }
        let capacity = self.consumer.segment.max_capacity();
        self.consumer.skip(self.partial_record_length);
        self.partial_record_length < capacity
    }
}
