//! The open buffers of a partition's writer, and its cursors on them.
//!
//! Rules of cursors:
//!
//! 1. a cursor with capacity 0 is void: it has no open buffer;
//! 2. unicast data finishes an open broadcast buffer and broadcast data finishes every open
//!    unicast buffer, so cursors of the other kind are void afterwards;
//! 3. an event, `finish` and `release` finish all buffers: every cursor is void afterwards;
//! 4. the writer publishes by a release store of the position into `marker`, then stores 1 into
//!    `dirty`.

use penstock_memory::BufferBuilder;
use penstock_memory::position_marker::Position;

/// An open buffer that the writer may fill in place; the layout is that of `PsCursor`.
#[derive(Debug)]
#[repr(C)]
pub struct Cursor {
    /// First byte of the buffer.
    pub data: *mut u8,
    /// Bytes written; the writer's own count, published through `marker`.
    pub position: u32,
    /// Number of bytes that may be written; 0 means that there is no buffer.
    pub capacity: u32,
    /// The position marker, stored with release ordering.
    pub marker: *mut i32,
    /// Set to 1 after publishing.
    pub dirty: *mut u8,
}

impl Cursor {
    /// Creates a cursor without a buffer.
    #[must_use]
    pub const fn void() -> Self {
        Self {
            data: std::ptr::null_mut(),
            position: 0,
            capacity: 0,
            marker: std::ptr::null_mut(),
            dirty: std::ptr::null_mut(),
        }
    }

    /// Passes the bytes written through the cursor to the builder, if the cursor is its own.
    pub(super) fn tell(&self, builder: &mut BufferBuilder) {
        if self.capacity > 0 && std::ptr::eq(self.marker, builder.marker_ptr()) {
            builder.marker().publish(Position::open(self.position));
        }
        builder.adopt_published();
    }
}

/// The open buffers: one for each subpartition with unicast data, or one for all.
#[derive(Debug)]
pub(super) struct OpenBuilders {
    unicast: Vec<Option<BufferBuilder>>,
    /// Indices of `unicast` that hold a builder, possibly stale.
    open: Vec<u32>,
    broadcast: Option<BufferBuilder>,
}

impl OpenBuilders {
    pub(super) fn new(num_subpartitions: usize) -> Self {
        Self {
            unicast: (0..num_subpartitions).map(|_| None).collect(),
            open: Vec::new(),
            broadcast: None,
        }
    }

    /// Returns the open buffer of a subpartition; `None` stands for the broadcast buffer.
    pub(super) fn get_mut(&mut self, subpartition: Option<usize>) -> Option<&mut BufferBuilder> {
        match subpartition {
            Some(index) => self.unicast[index].as_mut(),
            None => self.broadcast.as_mut(),
        }
    }

    /// Stores a newly opened buffer; the previous one is finished.
    pub(super) fn put(&mut self, subpartition: Option<usize>, builder: BufferBuilder) {
        match subpartition {
            Some(index) => {
                self.unicast[index] = Some(builder);
                self.open.push(index as u32);
            }
            None => self.broadcast = Some(builder),
        }
    }

    /// Finishes the buffer of `cursor` and those of the other kind; the cursor is void afterwards.
    pub(super) fn finish_for(&mut self, subpartition: Option<usize>, cursor: &mut Cursor) {
        if let Some(index) = subpartition {
            if let Some(mut builder) = self.unicast[index].take() {
                cursor.tell(&mut builder);
                builder.finish();
                // The index about to be pushed again stands for this one.
                if self.open.last() == Some(&(index as u32)) {
                    self.open.pop();
                }
            }
            self.finish_broadcast();
            if self.open.len() > 2 * self.unicast.len() {
                let unicast = &self.unicast;
                self.open = (0..unicast.len() as u32)
                    .filter(|index| unicast[*index as usize].is_some())
                    .collect();
            }
        } else {
            if let Some(builder) = &mut self.broadcast {
                cursor.tell(builder);
            }
            self.finish_all();
        }
        *cursor = Cursor::void();
    }

    fn finish_broadcast(&mut self) {
        if let Some(mut builder) = self.broadcast.take() {
            builder.adopt_published();
            builder.finish();
        }
    }

    /// Finishes every open buffer.
    pub(super) fn finish_all(&mut self) {
        self.finish_broadcast();
        for index in std::mem::take(&mut self.open) {
            if let Some(mut builder) = self.unicast[index as usize].take() {
                builder.adopt_published();
                builder.finish();
            }
        }
    }

    /// Recycles the open buffers: the pool is destroyed, and the writer, which is about to learn of
    /// it, may never call again.
    pub(super) fn clear(&mut self) {
        self.broadcast = None;
        self.open.clear();
        self.unicast.iter_mut().for_each(|builder| *builder = None);
    }
}
