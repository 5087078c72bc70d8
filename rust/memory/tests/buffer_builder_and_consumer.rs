//! Committed bytes are read exactly once, in order, while the writer continues.

#![cfg(not(feature = "loom"))]

use std::sync::Arc;

use penstock_memory::{
    Buffer, BufferBuilder, BufferConsumer, BufferConsumerWithPartialRecordLength, BufferError,
    DEFAULT_REQUEST_TIMEOUT, DataType, LocalBufferPool, LocalPoolOptions, NetworkBufferPool,
    UniqueBuffer,
};
use proptest::prelude::*;

const SEGMENT_SIZE: usize = 40;

fn builder() -> BufferBuilder {
    UniqueBuffer::unpooled(SEGMENT_SIZE).into_builder()
}

fn pool() -> (Arc<NetworkBufferPool>, Arc<LocalBufferPool>) {
    let network_pool = NetworkBufferPool::new(1, SEGMENT_SIZE, DEFAULT_REQUEST_TIMEOUT).unwrap();
    let pool = network_pool
        .create_buffer_pool(LocalPoolOptions::new(1, 1))
        .unwrap();
    (network_pool, pool)
}

/// bytes are invisible until they are committed.
#[test]
fn uncommitted_bytes_are_invisible() {
    let mut builder = builder();
    let mut consumer = builder.create_buffer_consumer().unwrap();
    builder.append(&[1, 2, 3]).unwrap();
    assert!(!consumer.is_data_available());
    assert!(consumer.build().is_empty());
    builder.commit();
    assert!(consumer.is_data_available());
    assert_eq!(consumer.build().as_slice(), [1, 2, 3]);
    assert!(consumer.build().is_empty());
}

/// finished with no bytes differs from open with no bytes, and the flag is refreshed by
/// `build` alone.
#[test]
fn finished_is_seen_at_the_next_build() {
    let mut builder = builder();
    let mut consumer = builder.create_buffer_consumer().unwrap();
    assert!(consumer.build().is_empty());
    assert!(!consumer.is_finished());
    assert_eq!(builder.finish(), 0);
    assert_eq!(builder.finish(), 0);
    assert!(!consumer.is_finished());
    assert!(consumer.build().is_empty());
    assert!(consumer.is_finished());
    assert_eq!(builder.append(&[1]).unwrap_err(), BufferError::Finished);
}

/// Bytes that another process has read are fetched back on request: long ranges by one fill, and
/// nothing behind them.
#[test]
fn what_was_read_elsewhere_is_fetched_back() {
    const SIZE: usize = 16 << 10;
    let network_pool = NetworkBufferPool::new(1, SIZE, DEFAULT_REQUEST_TIMEOUT).unwrap();
    let pool = network_pool
        .create_buffer_pool(LocalPoolOptions::new(1, 1))
        .unwrap();
    for (read, fetched) in [(0, 0), (100, 0), (10_000, 10_000), (SIZE, SIZE)] {
        let mut unique = pool.request_buffer().unwrap().unwrap();
        unique.as_mut_slice().fill(7);
        unique.set_size(SIZE).unwrap();
        let buffer = unique.into_buffer(DataType::DataBuffer);
        buffer
            .read_only_slice(0, read)
            .unwrap()
            .note_read_elsewhere();
        drop(buffer);
        let expected: Vec<u8> = (0..SIZE).map(|at| 7 * u8::from(at >= fetched)).collect();
        for fetches in [false, true, true] {
            let mut builder = pool.request_buffer().unwrap().unwrap().into_builder();
            if fetches {
                builder.fetch_back();
            }
            // SAFETY: the builder has as many bytes, which were written above.
            let bytes = unsafe { std::slice::from_raw_parts(builder.base_ptr(), SIZE) };
            let expected = if fetches { &expected } else { &[7; SIZE][..] };
            assert_eq!(bytes, expected, "{read} bytes were read");
        }
    }
}

/// Appends arrive as they are, wherever they lie beside their target modulo a page.
#[test]
fn appends_may_lie_anywhere() {
    const SIZE: usize = 12 << 10;
    let source: Vec<u8> = (0..2 * SIZE).map(|index| (index % 251) as u8).collect();
    for at in (0..80).chain(4000..4200) {
        let mut builder = UniqueBuffer::unpooled(SIZE).into_builder();
        let mut consumer = builder.create_buffer_consumer().unwrap();
        assert_eq!(builder.append_and_commit(&source[at..]).unwrap(), SIZE);
        assert_eq!(consumer.build().as_slice(), &source[at..at + SIZE]);
    }
}

/// Appends of many lengths, which are copied in pieces, arrive whole and in order.
#[test]
fn long_appends_arrive_whole() {
    let bytes: Vec<u8> = (0..20_000_u32).map(|at| (at % 251) as u8).collect();
    let mut builder = UniqueBuffer::unpooled(30_000).into_builder();
    let mut consumer = builder.create_buffer_consumer().unwrap();
    let mut rest = &bytes[..];
    for count in [1, 1023, 1024, 1025, 0, 2048, 10_000, 4_879] {
        let (now, later) = rest.split_at(count);
        assert_eq!(builder.append_and_commit(now).unwrap(), count);
        rest = later;
    }
    assert!(rest.is_empty());
    assert!(consumer.build().as_slice() == bytes);
    // What does not fit any more is cut inside of a piece.
    assert_eq!(builder.append_and_commit(&bytes).unwrap(), 10_000);
    assert!(consumer.build().as_slice() == &bytes[..10_000]);
}

/// Appending more than fits copies what fits; the builder is then full, finished or not.
#[test]
fn append_copies_what_fits() {
    let mut builder = builder();
    let mut consumer = builder.create_buffer_consumer().unwrap();
    assert_eq!(
        builder.append_and_commit(&[7; SEGMENT_SIZE + 1]).unwrap(),
        SEGMENT_SIZE
    );
    assert!(builder.is_full());
    assert_eq!(builder.writable_bytes(), 0);
    assert_eq!(consumer.build().as_slice(), [7; SEGMENT_SIZE]);
    assert!(!consumer.is_finished());
    builder.finish();
    assert!(consumer.build().is_empty());
    assert!(consumer.is_finished());
}

/// A second consumer of a builder is an error; copies of the first are not, and go their own way.
#[test]
fn one_consumer_and_its_copies() {
    let mut builder = builder();
    builder.append_and_commit(&[1, 2]).unwrap();
    let mut consumer = builder.create_buffer_consumer_from_beginning().unwrap();
    assert_eq!(
        builder.create_buffer_consumer().unwrap_err(),
        BufferError::ConsumerExists
    );
    assert_eq!(consumer.build().as_slice(), [1, 2]);
    let mut copy = consumer.copy();
    builder.append_and_commit(&[3]).unwrap();
    assert_eq!(consumer.build().as_slice(), [3]);
    builder.append_and_commit(&[4]).unwrap();
    assert_eq!(copy.build().as_slice(), [3, 4]);
    assert_eq!(
        consumer.copy_with_reader_position(1).build().as_slice(),
        [2, 3, 4]
    );
}

/// A consumer made in the middle sees what comes after; one from the beginning sees all.
#[test]
fn consumer_starts_at_the_write_offset() {
    let mut builder = builder();
    builder.append(&[1, 2]).unwrap();
    let mut consumer = builder.create_buffer_consumer().unwrap();
    assert!(consumer.build().is_empty());
    builder.append_and_commit(&[3]).unwrap();
    assert_eq!(consumer.build().as_slice(), [3]);
}

/// `trim` stays between the bytes written and the segment's size.
#[test]
fn trim_is_clamped() {
    let mut builder = builder();
    builder.append(&[0; 10]).unwrap();
    builder.trim(20);
    assert_eq!((builder.max_capacity(), builder.writable_bytes()), (20, 10));
    builder.trim(5);
    assert_eq!(builder.max_capacity(), 10);
    assert!(builder.is_full());
    builder.trim(SEGMENT_SIZE + 1);
    assert_eq!(builder.max_capacity(), SEGMENT_SIZE);
}

/// the segment returns when builder, consumers and slices are all gone, in any order.
#[test]
fn segment_returns_after_everyone_is_gone() {
    for order in 0..3 {
        let (network_pool, pool) = pool();
        let mut builder = pool.request_buffer().unwrap().unwrap().into_builder();
        let mut consumer = builder.create_buffer_consumer().unwrap();
        builder.append_and_commit(&[1]).unwrap();
        let slice = consumer.build();
        let mut parts: Vec<Box<dyn std::any::Any>> =
            vec![Box::new(builder), Box::new(consumer), Box::new(slice)];
        parts.rotate_left(order);
        drop(parts.pop());
        drop(parts.pop());
        assert_eq!(pool.available_segments(), 0);
        drop(parts.pop());
        assert_eq!(pool.available_segments(), 1);
        drop(pool);
        assert_eq!(network_pool.available_segments(), 1);
    }
}

/// A recycled segment starts over: neither the marker nor the consumer of before is seen.
#[test]
fn recycled_segments_start_over() {
    let (_network_pool, pool) = pool();
    for _ in 0..2 {
        let mut builder = pool.request_buffer().unwrap().unwrap().into_builder();
        let mut consumer = builder.create_buffer_consumer().unwrap();
        assert!(!consumer.is_data_available());
        builder.append(&[9; 3]).unwrap();
        builder.finish();
        assert_eq!(consumer.build().as_slice(), [9; 3]);
    }
}

/// A consumer of a finished buffer gives all of it once, and its copies as well.
#[test]
fn finished_consumer_of_an_event() {
    let event = Buffer::from_bytes([5, 6], DataType::EventBuffer);
    let mut consumer = BufferConsumer::finished(event);
    let mut copy = consumer.copy();
    assert!(consumer.is_finished());
    assert!(!consumer.is_buffer());
    let built = consumer.build();
    assert_eq!(
        (built.as_slice(), built.data_type()),
        (&[5, 6][..], DataType::EventBuffer)
    );
    assert!(!consumer.is_data_available());
    assert_eq!(copy.build().as_slice(), [5, 6]);
}

/// The tail of a partial record is skipped; one that fills the buffer goes on in the next.
#[test]
fn partial_record_is_skipped() {
    let make = |bytes: usize, partial: usize| {
        let mut builder = builder();
        let consumer = builder.create_buffer_consumer_from_beginning().unwrap();
        builder.append(&vec![1; bytes]).unwrap();
        builder.finish();
        BufferConsumerWithPartialRecordLength::new(consumer, partial)
    };
    let mut whole = make(10, 0);
    assert!(whole.skip_partial_record());
    assert_eq!(whole.consumer.build().len(), 10);
    let mut tail = make(10, 4);
    assert!(tail.skip_partial_record());
    assert_eq!(tail.consumer.build().len(), 6);
    let mut filled = make(SEGMENT_SIZE, SEGMENT_SIZE);
    assert!(!filled.skip_partial_record());
    assert_eq!(filled.consumer.build().len(), 0);
}

/// The pointers that cross the C function table: bytes written through them, then adopted.
#[test]
fn foreign_writer_publishes_through_the_pointers() {
    let mut builder = builder();
    let mut consumer = builder.create_buffer_consumer_from_beginning().unwrap();
    builder.append_and_commit(&[1]).unwrap();
    // SAFETY: one byte is written and more than one fits.
    let target = unsafe { builder.base_ptr().add(1) };
    // SAFETY: as above; nobody reads the byte before the marker says so.
    unsafe { target.write(2) };
    // SAFETY: the marker lives as long as the builder.
    let marker = unsafe { std::sync::atomic::AtomicI32::from_ptr(builder.marker_ptr()) };
    marker.store(2, std::sync::atomic::Ordering::Release);
    assert_eq!(consumer.build().as_slice(), [1, 2]);
    assert_eq!(builder.adopt_published(), 2);
    builder.append_and_commit(&[3]).unwrap();
    assert_eq!(builder.finish(), 3);
    assert_eq!(consumer.build().as_slice(), [3]);
}

/// a reader on another thread gets every committed byte once and in order.
#[test]
fn reader_and_writer_on_two_threads() {
    let bytes: Vec<u8> = (0..=255).cycle().take(32 * 1024).collect();
    let mut builder = UniqueBuffer::unpooled(bytes.len()).into_builder();
    let mut consumer = builder.create_buffer_consumer().unwrap();
    let read = std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut read = Vec::new();
            loop {
                read.extend_from_slice(&consumer.build());
                if consumer.is_finished() {
                    return read;
                }
            }
        });
        for chunk in bytes.chunks(7) {
            builder.append_and_commit(chunk).unwrap();
        }
        builder.finish();
        reader.join().unwrap()
    });
    assert_eq!(read, bytes);
}

proptest! {
    /// whatever the order of appends, commits and builds, slices add up to what is committed.
    #[test]
    fn slices_add_up_to_the_committed_bytes(steps in prop::collection::vec((0_u8..4, 0_usize..12), 0..60)) {
        let mut builder = builder();
        let mut consumer = builder.create_buffer_consumer().unwrap();
        let (mut written, mut committed, mut read) = (Vec::new(), 0, Vec::new());
        for (index, (step, length)) in steps.into_iter().enumerate() {
            match step {
                0 | 1 => {
                    let bytes = vec![u8::try_from(index).unwrap(); length];
                    let count = builder.append(&bytes).unwrap();
                    written.extend_from_slice(&bytes[..count]);
                    if step == 1 {
                        builder.commit();
                        committed = written.len();
                    }
                }
                2 => {
                    builder.commit();
                    committed = written.len();
                }
                _ => {
                    read.extend_from_slice(&consumer.build());
                    prop_assert_eq!(read.len(), committed);
                }
            }
        }
        builder.finish();
        read.extend_from_slice(&consumer.build());
        prop_assert_eq!(read, written);
        prop_assert!(consumer.is_finished());
    }
}
