//! Position of a buffer's writer, as the reader sees it.
//!
//! One signed integer holds both the number of committed bytes and the end of writing:
//!
//! | value        | meaning                                     |
//! |--------------|---------------------------------------------|
//! | `n >= 0`     | `n` bytes are committed, the buffer is open |
//! | `n < 0`      | finished with `-n` bytes                    |
//! | `i32::MIN`   | finished with 0 bytes (as `-0 == 0`)        |
//!
//! Only the writer stores, with release ordering, after the bytes; the reader loads with acquire
//! ordering, so every byte below the loaded value is visible to it.

use crate::sync::{AtomicI32, Ordering};

/// The marker of a buffer finished without a byte.
pub const FINISHED_EMPTY: i32 = i32::MIN;

/// A value of the marker, as read at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position(i32);

impl Position {
    /// Creates an open buffer with `bytes` committed bytes.
    #[must_use]
    pub const fn open(bytes: u32) -> Self {
        debug_assert!(bytes <= i32::MAX as u32);
        Self(bytes as i32)
    }

    /// Creates a finished buffer of `bytes` bytes.
    #[must_use]
    pub const fn finished(bytes: u32) -> Self {
        if bytes == 0 {
            Self(FINISHED_EMPTY)
        } else {
            Self(-(bytes as i32))
        }
    }

    /// Converts a raw marker value to a position.
    #[must_use]
    pub const fn from_raw(raw: i32) -> Self {
        Self(raw)
    }

    /// Returns the raw marker value.
    #[must_use]
    pub const fn raw(self) -> i32 {
        self.0
    }

    /// Returns the number of committed bytes.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        if self.0 == FINISHED_EMPTY {
            0
        } else {
            self.0.unsigned_abs()
        }
    }

    /// Returns whether no byte will follow.
    #[must_use]
    pub const fn is_finished(self) -> bool {
        self.0 < 0
    }
}

/// The shared integer of one writer and its readers.
#[derive(Debug)]
#[repr(transparent)]
pub struct PositionMarker(AtomicI32);

impl PositionMarker {
    /// Creates a marker of an open buffer without committed bytes.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicI32::new(0))
    }

    /// Publishes `position` and every byte written before.  Only the writer may call this.
    #[inline]
    pub fn publish(&self, position: Position) {
        self.0.store(position.raw(), Ordering::Release);
    }

    /// Reads the position; the bytes below it are visible afterwards.
    #[inline]
    #[must_use]
    pub fn observe(&self) -> Position {
        Position::from_raw(self.0.load(Ordering::Acquire))
    }

    /// Resets the marker for a new writer.  No reader may exist.
    #[inline]
    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Returns the address of the integer, for a writer beyond the C function table.
    #[cfg(not(feature = "loom"))]
    #[must_use]
    pub fn as_ptr(&self) -> *mut i32 {
        self.0.as_ptr()
    }
}

impl Default for PositionMarker {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::{FINISHED_EMPTY, Position};

    /// finished with no bytes differs from open with no bytes.
    #[test]
    fn finished_empty_is_its_own_value() {
        assert!(!Position::open(0).is_finished());
        assert!(Position::finished(0).is_finished());
        assert_eq!(Position::finished(0).bytes(), 0);
        assert_eq!(Position::finished(0).raw(), FINISHED_EMPTY);
        assert_eq!(Position::finished(7).raw(), -7);
        assert_eq!(Position::finished(7).bytes(), 7);
        assert_eq!(Position::from_raw(7), Position::open(7));
    }
}
