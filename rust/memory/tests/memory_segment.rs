//! Checked access to segments on and off the heap, before and after they are freed.

#![cfg(not(feature = "loom"))]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use penstock_memory::{ForeignKind, MemorySegment, SegmentError};

const SIZE: usize = 32;

fn both() -> [MemorySegment; 2] {
    [
        MemorySegment::allocate_heap(SIZE),
        MemorySegment::allocate_off_heap(SIZE),
    ]
}

fn is_out_of_bounds<T: std::fmt::Debug>(result: Result<T, SegmentError>) -> bool {
    matches!(result, Err(SegmentError::OutOfBounds { .. }))
}

fn is_freed<T: std::fmt::Debug>(result: Result<T, SegmentError>, which: &str) -> bool {
    matches!(result, Err(SegmentError::Freed { which: found }) if found.starts_with(which))
}

/// Checks one scalar type: round trip at every offset, bounds, freed, byte order.
macro_rules! check_scalar {
    ($name:ident, $type:ty, $value:expr, $get:ident, $put:ident, $get_le:ident, $put_le:ident,
     $get_be:ident, $put_be:ident) => {
        /// for one scalar type.
        #[test]
        fn $name() {
            let width = size_of::<$type>();
            let value: $type = $value;
            for mut segment in both() {
                for index in 0..=SIZE - width {
                    segment.$put(index, value).unwrap();
                    assert_eq!(
                        segment.$get(index).unwrap().to_ne_bytes(),
                        value.to_ne_bytes()
                    );
                    segment.$put_be(index, value).unwrap();
                    let mut reversed = value.to_le_bytes();
                    reversed.reverse();
                    assert_eq!(segment.$get_le(index).unwrap().to_le_bytes(), reversed);
                    segment.$put_le(index, value).unwrap();
                    assert_eq!(
                        segment.$get_le(index).unwrap().to_ne_bytes(),
                        value.to_ne_bytes()
                    );
                    assert_eq!(segment.$get_be(index).unwrap().to_le_bytes(), reversed);
                }
                for index in [SIZE - width + 1, SIZE, i32::MAX as usize, usize::MAX] {
                    assert!(is_out_of_bounds(segment.$get(index)));
                    assert!(is_out_of_bounds(segment.$put(index, value)));
                }
                segment.free().unwrap();
                assert!(is_freed(segment.$get(0), "this"));
                assert!(is_freed(segment.$put(usize::MAX, value), "this"));
            }
        }
    };
}

check_scalar!(
    chars,
    u16,
    0xFEDC,
    get_char,
    put_char,
    get_char_little_endian,
    put_char_little_endian,
    get_char_big_endian,
    put_char_big_endian
);
check_scalar!(
    shorts,
    i16,
    -12_345,
    get_short,
    put_short,
    get_short_little_endian,
    put_short_little_endian,
    get_short_big_endian,
    put_short_big_endian
);
check_scalar!(
    ints,
    i32,
    -123_456_789,
    get_int,
    put_int,
    get_int_little_endian,
    put_int_little_endian,
    get_int_big_endian,
    put_int_big_endian
);
check_scalar!(
    longs,
    i64,
    0x0123_4567_89AB_CDEF,
    get_long,
    put_long,
    get_long_little_endian,
    put_long_little_endian,
    get_long_big_endian,
    put_long_big_endian
);
check_scalar!(
    floats,
    f32,
    f32::from_bits(0x7FC1_2345),
    get_float,
    put_float,
    get_float_little_endian,
    put_float_little_endian,
    get_float_big_endian,
    put_float_big_endian
);
check_scalar!(
    doubles,
    f64,
    f64::from_bits(0x7FF8_0000_DEAD_BEEF),
    get_double,
    put_double,
    get_double_little_endian,
    put_double_little_endian,
    get_double_big_endian,
    put_double_big_endian
);

/// Any byte but 0 is true; true is written as 1.
#[test]
fn booleans() {
    let mut segment = MemorySegment::wrap_array(vec![0, 2]);
    assert!(!segment.get_boolean(0).unwrap());
    assert!(segment.get_boolean(1).unwrap());
    segment.put_boolean(1, true).unwrap();
    assert_eq!(segment.get(1).unwrap(), 1);
}

/// segments of 0 and 1 bytes work as far as widths allow.
#[test]
fn undersized() {
    let mut empty = MemorySegment::allocate_heap(0);
    assert!(is_out_of_bounds(empty.get(0)));
    assert!(is_out_of_bounds(empty.put_int(0, 1)));
    empty.get_bytes(0, &mut [], 0, 0).unwrap();
    let mut single = MemorySegment::allocate_off_heap(1);
    single.put(0, 7).unwrap();
    assert_eq!(single.get(0).unwrap(), 7);
    assert!(is_out_of_bounds(single.get_char(0)));
}

/// Bulk access checks the caller's array before the segment, and that before the range.
#[test]
fn bulk_access() {
    for mut segment in both() {
        segment.put_bytes(3, &[9, 1, 2, 3], 1, 3).unwrap();
        let mut target = [0; 5];
        segment.get_bytes(3, &mut target, 1, 3).unwrap();
        assert_eq!(target, [0, 1, 2, 3, 0]);
        assert!(is_out_of_bounds(segment.get_bytes(
            SIZE - 2,
            &mut target,
            0,
            3
        )));
        assert!(is_out_of_bounds(segment.put_bytes(0, &[1], usize::MAX, 2)));
        segment.free().unwrap();
        assert!(is_out_of_bounds(segment.get_bytes(0, &mut target, 3, 3)));
        assert!(is_freed(segment.get_bytes(0, &mut target, 2, 3), "this"));
    }
}

/// A byte buffer's position advances by exactly what was moved, and stays when nothing was.
#[test]
fn byte_buffers() {
    let mut segment = MemorySegment::allocate_off_heap(SIZE);
    let mut position = 1;
    segment
        .put_from_byte_buffer(0, &[0, 1, 2], &mut position, 2)
        .unwrap();
    assert_eq!(position, 3);
    assert_eq!(
        segment
            .put_from_byte_buffer(0, &[0, 1, 2], &mut position, 1)
            .unwrap_err(),
        SegmentError::Underflow
    );
    let (mut target, mut position) = ([0; 3], 1);
    segment
        .get_to_byte_buffer(0, Some(&mut target), &mut position, 2)
        .unwrap();
    assert_eq!((target, position), ([0, 1, 2], 3));
    assert_eq!(
        segment
            .get_to_byte_buffer(0, Some(&mut target), &mut position, 1)
            .unwrap_err(),
        SegmentError::Overflow
    );
    assert_eq!(
        segment
            .get_to_byte_buffer(0, None, &mut position, 0)
            .unwrap_err(),
        SegmentError::ReadOnlyBuffer
    );
    assert_eq!(position, 3);
}

/// Comparison is unsigned: -1 or 1 within words of eight bytes, the difference behind them.
#[test]
fn compare() {
    for first in both() {
        for mut second in both() {
            assert_eq!(first.compare(&second, 0, 0, SIZE).unwrap(), 0);
            second.put(3, 200).unwrap();
            assert_eq!(first.compare(&second, 0, 0, 16).unwrap(), -1);
            assert_eq!(second.compare(&first, 0, 0, 16).unwrap(), 1);
            assert_eq!(second.compare(&first, 0, 0, 5).unwrap(), 200);
            assert_eq!(first.compare_lengths(&second, 0, 0, 3, 1).unwrap(), 2);
            assert_eq!(first.compare_lengths(&second, 0, 0, 3, 9).unwrap(), -6);
            assert!(!first.equal_to(&second, 0, 0, 4).unwrap());
            assert!(first.equal_to(&second, 0, 0, 0).unwrap());
        }
    }
}

/// Swapping checks everything before it moves anything.
#[test]
fn swap() {
    let mut first = MemorySegment::wrap_array(vec![1, 2, 3, 4]);
    let mut second = MemorySegment::allocate_off_heap(4);
    let mut scratch = [0; 3];
    assert!(is_out_of_bounds(first.swap_bytes(
        &mut scratch,
        &mut second,
        0,
        0,
        4
    )));
    assert!(is_out_of_bounds(first.swap_bytes(
        &mut scratch,
        &mut second,
        0,
        2,
        3
    )));
    assert_eq!(first.array().unwrap(), [1, 2, 3, 4]);
    first
        .swap_bytes(&mut scratch, &mut second, 1, 0, 3)
        .unwrap();
    assert_eq!(first.array().unwrap(), [1, 0, 0, 0]);
    assert_eq!(second.off_heap_buffer().unwrap(), [2, 3, 4, 0]);
}

/// of two segments, the error names the freed one.
#[test]
fn freed_on_either_side() {
    let mut live = MemorySegment::allocate_heap(4);
    let mut freed = MemorySegment::allocate_heap(4);
    freed.free().unwrap();
    let mut scratch = [0; 4];
    assert!(is_freed(live.compare(&freed, 0, 0, 1), "the other"));
    assert!(is_freed(freed.compare(&live, 0, 0, 1), "this"));
    assert!(is_freed(live.equal_to(&freed, 0, 0, 0), "the other"));
    assert!(is_freed(live.copy_to(0, &mut freed, 0, 1), "the other"));
    assert!(is_freed(freed.copy_to(0, &mut live, 0, 1), "this"));
    assert!(is_freed(
        live.swap_bytes(&mut scratch, &mut freed, 0, 0, 1),
        "the other"
    ));
    assert!(is_freed(
        freed.swap_bytes(&mut scratch, &mut live, 0, 0, 1),
        "this"
    ));
    assert!(is_freed(freed.wrap(0, 1), "this"));
    assert!(freed.is_off_heap().is_err());
    assert_eq!(freed.size(), 4);
    assert!(freed.is_freed());
}

/// The cleaner runs once, by `free` or by dropping; a second `free` is an error only on request.
#[test]
fn cleaner_runs_once() {
    let runs = Arc::new(AtomicUsize::new(0));
    let make = || {
        let runs = Arc::clone(&runs);
        MemorySegment::allocate_unsafe(
            8,
            Box::new(move || {
                runs.fetch_add(1, Ordering::Relaxed);
            }),
        )
    };
    let mut lenient = make();
    lenient.free().unwrap();
    lenient.free().unwrap();
    drop(lenient);
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    let mut strict = make().with_strict_free();
    assert!(matches!(
        strict.wrap(0, 1),
        Err(SegmentError::Unsupported(_))
    ));
    strict.free().unwrap();
    assert!(matches!(strict.free(), Err(SegmentError::IllegalState(_))));
    drop(make());
    assert_eq!(runs.load(Ordering::Relaxed), 3);
}

/// Every way of making a segment, and what it refuses.
#[test]
fn factories() {
    assert_eq!(
        MemorySegment::wrap_int(0x0102_0304).array().unwrap(),
        [1, 2, 3, 4]
    );
    assert_eq!(
        MemorySegment::wrap_copy(&[1, 2, 3], 1, 3)
            .unwrap()
            .array()
            .unwrap(),
        [2, 3]
    );
    assert!(is_out_of_bounds(MemorySegment::wrap_copy(&[1, 2, 3], 2, 1)));
    assert!(is_out_of_bounds(MemorySegment::wrap_copy(&[1, 2, 3], 0, 4)));
    assert!(MemorySegment::allocate_off_heap(1).array().is_err());
    assert!(MemorySegment::allocate_heap(1).off_heap_buffer().is_err());
    assert_eq!(
        MemorySegment::allocate_heap(1).with_owner(5).owner(),
        Some(5)
    );
    assert!(MemorySegment::allocate_off_heap(1).is_off_heap().unwrap());
    let mut segment = MemorySegment::allocate_heap(4);
    segment.wrap(1, 2).unwrap().copy_from_slice(&[7, 8]);
    assert_eq!(segment.array().unwrap(), [0, 7, 8, 0]);
}

/// Wraps part of an array that `keeper` keeps.
fn foreign(keeper: &Arc<[AtomicU8]>, from: usize, size: usize, kind: ForeignKind) -> MemorySegment {
    let first = NonNull::from(&keeper[from..]).cast::<u8>();
    // SAFETY: the array lives as long as its `Arc`, and each test is of one thread, which touches
    // the bytes only between accesses of segments.
    unsafe { MemorySegment::wrap_foreign(first, size, kind, Box::new(Arc::clone(keeper))) }
}

/// Foreign memory is shared, counts as what it was said to be, and is let go of once, by `free`.
#[test]
fn foreign_memory_is_shared() {
    let array: Arc<[AtomicU8]> = (0..8).map(AtomicU8::new).collect();
    let mut segment = foreign(&array, 2, 4, ForeignKind::Heap);
    array[3].store(33, Ordering::Relaxed);
    assert_eq!(segment.array().unwrap(), [2, 33, 4, 5]);
    segment.put(0, 22).unwrap();
    assert_eq!(array[2].load(Ordering::Relaxed), 22);
    assert!(segment.off_heap_buffer().is_err());
    let twin = foreign(&array, 5, 3, ForeignKind::OffHeap);
    assert!(segment.overlaps(&twin));
    assert!(!segment.overlaps(&foreign(&array, 6, 2, ForeignKind::OffHeap)));
    assert!(twin.is_off_heap().unwrap());
    assert_eq!(twin.off_heap_buffer().unwrap(), [5, 6, 7]);
    assert!(twin.array().is_err());
    let mut secret = foreign(&array, 0, 1, ForeignKind::Unsafe);
    assert!(matches!(
        secret.wrap(0, 1),
        Err(SegmentError::Unsupported(_))
    ));
    drop((twin, secret));
    assert_eq!(Arc::strong_count(&array), 2);
    segment.free().unwrap();
    assert_eq!(Arc::strong_count(&array), 1);
    assert!(!segment.overlaps(&foreign(&array, 0, 8, ForeignKind::Heap)));
}
