//! Buffers share their segment by counting; indexes belong to each handle.

#![cfg(not(feature = "loom"))]

use penstock_memory::{
    Buffer, BufferError, DEFAULT_REQUEST_TIMEOUT, DataType, LocalPoolOptions, NetworkBufferPool,
    UniqueBuffer,
};

fn buffer(size: u8) -> Buffer {
    Buffer::from_bytes((0..size).collect::<Vec<u8>>(), DataType::DataBuffer)
}

/// a segment returns when the parent and all slices are gone, whoever goes last.
#[test]
fn segment_returns_with_the_last_handle() {
    let network_pool = NetworkBufferPool::new(2, 64, DEFAULT_REQUEST_TIMEOUT).unwrap();
    let pool = network_pool
        .create_buffer_pool(LocalPoolOptions::new(1, 1))
        .unwrap();
    let mut unique = pool.request_buffer().unwrap().unwrap();
    assert_eq!(unique.append(&[1, 2, 3, 4]), 4);
    let parent = unique.into_buffer(DataType::DataBuffer);
    let slice = parent.read_only_slice(1, 2).unwrap();
    let nested = slice.read_only_slice(1, 1).unwrap();
    assert_eq!(parent.ref_count(), 3);
    drop(parent);
    drop(slice);
    assert_eq!(pool.available_segments(), 0);
    assert_eq!(nested.as_slice(), [3]);
    assert_eq!(nested.memory_segment_offset(), 2);
    drop(nested);
    assert_eq!(pool.available_segments(), 1);
}

/// the indexes, the type and the size of a slice are its own.
#[test]
fn slices_never_move_their_parent() {
    let mut parent = buffer(8);
    parent.set_reader_index(1).unwrap();
    let mut slice = parent.read_only_slice(2, 4).unwrap();
    slice.set_reader_index(3).unwrap();
    slice.set_size(3).unwrap();
    slice.set_data_type(DataType::EventBuffer);
    assert_eq!(parent.reader_index(), 1);
    assert_eq!(parent.size(), 8);
    assert_eq!(parent.data_type(), DataType::DataBuffer);
    assert_eq!(slice.as_slice(), [2, 3, 4]);
    assert!(slice.readable().is_empty());
    assert_eq!(parent.readable(), [1, 2, 3, 4, 5, 6, 7]);
}

/// views taken by several threads are independent.
#[test]
fn clones_are_independent_across_threads() {
    let parent = buffer(100);
    std::thread::scope(|scope| {
        for start in 0..4 {
            let mut clone = parent.clone();
            scope.spawn(move || {
                for index in start..100 {
                    clone.set_reader_index(index).unwrap();
                    assert_eq!(usize::from(clone.readable()[0]), index);
                }
            });
        }
    });
    assert_eq!(parent.reader_index(), 0);
    assert_eq!(parent.ref_count(), 1);
}

/// Bounds: exactly full is legal, one over is not, and a failed call changes nothing.
#[test]
fn bounds_are_checked() {
    let mut parent = buffer(4);
    assert!(parent.read_only_slice(0, 4).is_ok());
    assert!(parent.read_only_slice(4, 0).is_ok());
    let over = BufferError::OutOfBounds {
        index: 3,
        length: 2,
        size: 4,
    };
    assert_eq!(parent.read_only_slice(3, 2).unwrap_err(), over);
    assert!(parent.read_only_slice(usize::MAX, 2).is_err());
    assert!(parent.set_reader_index(5).is_err());
    parent.set_reader_index(3).unwrap();
    assert!(parent.set_size(2).is_err());
    assert!(parent.set_size(5).is_err());
    assert_eq!((parent.size(), parent.reader_index()), (4, 3));

    let mut unique = UniqueBuffer::unpooled(4);
    assert!(unique.set_size(5).is_err());
    assert_eq!(unique.append(&[0; 6]), 4);
    assert_eq!(unique.append(&[0; 6]), 0);
}

/// Part of a compressed buffer is an error; the whole of an empty buffer is not.
#[test]
fn compressed_buffers_refuse_slices() {
    let mut parent = buffer(4);
    parent.set_compressed(true);
    assert_eq!(
        parent.read_only_slice(0, 4).unwrap_err(),
        BufferError::Compressed
    );
    assert!(buffer(0).read_only_slice(0, 0).unwrap().is_empty());
}
