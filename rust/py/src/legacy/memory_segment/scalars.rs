//! Scalars of a segment, in three byte orders.

use pyo3::prelude::*;

use super::{MemorySegment, position};
use crate::errors::segment_error;

/// Defines the Python methods that read and write one scalar type, in three byte orders.
macro_rules! scalars {
    ($($type:ty: $($get:ident $put:ident),+;)+) => {
        #[pymethods]
        impl MemorySegment {
            $($(
                fn $get(&self, py: Python<'_>, index: i64) -> PyResult<$type> {
                    let segment = self.lock();
                    segment.$get(position(index)).map_err(|error| segment_error(py, &error))
                }

                fn $put(&self, py: Python<'_>, index: i64, value: $type) -> PyResult<()> {
                    let mut segment = self.lock();
                    segment.$put(position(index), value).map_err(|error| segment_error(py, &error))
                }
            )+)+
        }
    };
}

scalars! {
    bool: get_boolean put_boolean;
    u16: get_char put_char, get_char_little_endian put_char_little_endian,
        get_char_big_endian put_char_big_endian;
    i16: get_short put_short, get_short_little_endian put_short_little_endian,
        get_short_big_endian put_short_big_endian;
    i32: get_int put_int, get_int_little_endian put_int_little_endian,
        get_int_big_endian put_int_big_endian;
    i64: get_long put_long, get_long_little_endian put_long_little_endian,
        get_long_big_endian put_long_big_endian;
    f32: get_float put_float, get_float_little_endian put_float_little_endian,
        get_float_big_endian put_float_big_endian;
    f64: get_double put_double, get_double_little_endian put_double_little_endian,
        get_double_big_endian put_double_big_endian;
}
