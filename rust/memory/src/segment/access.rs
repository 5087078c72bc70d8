//! Scalars of a segment: native, little and big endian, at any alignment.

use super::{MemorySegment, THIS};
use crate::error::SegmentError;

/// Defines the six accessors of one scalar type.
macro_rules! scalar {
    ($type:ty, $what:literal, $get:ident, $put:ident, $get_le:ident, $put_le:ident, $get_be:ident,
     $put_be:ident) => {
        scalar!(@get $type, $what, "native", $get, from_ne_bytes);
        scalar!(@put $type, $what, "native", $put, to_ne_bytes);
        scalar!(@get $type, $what, "little endian", $get_le, from_le_bytes);
        scalar!(@put $type, $what, "little endian", $put_le, to_le_bytes);
        scalar!(@get $type, $what, "big endian", $get_be, from_be_bytes);
        scalar!(@put $type, $what, "big endian", $put_be, to_be_bytes);
    };
    (@get $type:ty, $what:literal, $order:literal, $name:ident, $convert:ident) => {
        #[doc = concat!("Reads ", $what, " in ", $order, " byte order.")]
        ///
        /// # Errors
        ///
        /// [`SegmentError::Freed`]; [`SegmentError::OutOfBounds`].
        #[inline]
        pub fn $name(&self, index: usize) -> Result<$type, SegmentError> {
            Ok(<$type>::$convert(self.scalar(index)?))
        }
    };
    (@put $type:ty, $what:literal, $order:literal, $name:ident, $convert:ident) => {
        #[doc = concat!("Writes ", $what, " in ", $order, " byte order.")]
        ///
        /// # Errors
        ///
        /// [`SegmentError::Freed`]; [`SegmentError::OutOfBounds`].
        #[inline]
        pub fn $name(&mut self, index: usize, value: $type) -> Result<(), SegmentError> {
            self.put_scalar(index, value.$convert())
        }
    };
}

impl MemorySegment {
    scalar!(
        u16,
        "an unsigned 16-bit character",
        get_char,
        put_char,
        get_char_little_endian,
        put_char_little_endian,
        get_char_big_endian,
        put_char_big_endian
    );
    scalar!(
        i16,
        "a signed 16-bit integer",
        get_short,
        put_short,
        get_short_little_endian,
        put_short_little_endian,
        get_short_big_endian,
        put_short_big_endian
    );
    scalar!(
        i32,
        "a signed 32-bit integer",
        get_int,
        put_int,
        get_int_little_endian,
        put_int_little_endian,
        get_int_big_endian,
        put_int_big_endian
    );
    scalar!(
        i64,
        "a signed 64-bit integer",
        get_long,
        put_long,
        get_long_little_endian,
        put_long_little_endian,
        get_long_big_endian,
        put_long_big_endian
    );
    scalar!(
        f32,
        "a 32-bit float",
        get_float,
        put_float,
        get_float_little_endian,
        put_float_little_endian,
        get_float_big_endian,
        put_float_big_endian
    );
    scalar!(
        f64,
        "a 64-bit float",
        get_double,
        put_double,
        get_double_little_endian,
        put_double_little_endian,
        get_double_big_endian,
        put_double_big_endian
    );

    /// Reads a byte.
    ///
    /// # Errors
    ///
    /// [`SegmentError::Freed`]; [`SegmentError::OutOfBounds`].
    #[inline]
    pub fn get(&self, index: usize) -> Result<u8, SegmentError> {
        Ok(self.scalar::<1>(index)?[0])
    }

    /// Writes a byte.
    ///
    /// # Errors
    ///
    /// [`SegmentError::Freed`]; [`SegmentError::OutOfBounds`].
    #[inline]
    pub fn put(&mut self, index: usize, value: u8) -> Result<(), SegmentError> {
        self.put_scalar(index, [value])
    }

    /// Reads a byte as a truth value: anything but 0 is true.
    ///
    /// # Errors
    ///
    /// [`SegmentError::Freed`]; [`SegmentError::OutOfBounds`].
    pub fn get_boolean(&self, index: usize) -> Result<bool, SegmentError> {
        Ok(self.get(index)? != 0)
    }

    /// Writes a truth value as 1 or 0.
    ///
    /// # Errors
    ///
    /// [`SegmentError::Freed`]; [`SegmentError::OutOfBounds`].
    pub fn put_boolean(&mut self, index: usize, value: bool) -> Result<(), SegmentError> {
        self.put(index, u8::from(value))
    }

    #[inline]
    fn scalar<const WIDTH: usize>(&self, index: usize) -> Result<[u8; WIDTH], SegmentError> {
        let mut bytes = [0; WIDTH];
        bytes.copy_from_slice(self.range(index, WIDTH, THIS)?);
        Ok(bytes)
    }

    #[inline]
    fn put_scalar<const WIDTH: usize>(
        &mut self,
        index: usize,
        bytes: [u8; WIDTH],
    ) -> Result<(), SegmentError> {
        self.range_mut(index, WIDTH, THIS)?.copy_from_slice(&bytes);
        Ok(())
    }
}
