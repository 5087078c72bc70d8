//! Interleavings of those who share the segment of a buffer: its count of handles.
//!
//! Run with `make proof PARTS=models`.

#![cfg(feature = "loom")]

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;
use penstock_memory::{
    BufferRecycler, DEFAULT_REQUEST_TIMEOUT, DataType, LocalPoolOptions, NetworkBufferPool,
    PooledSegment,
};

/// In place of the bytes: loom fails the model when a read and a write of it are not ordered.
#[derive(Default)]
struct Contents(UnsafeCell<u8>);

// SAFETY: loom lets one thread run at a time.
unsafe impl Send for Contents {}
// SAFETY: as above.
unsafe impl Sync for Contents {}

impl Contents {
    fn read(&self) -> u8 {
        // SAFETY: a reader has a handle, a writer the only one, or the segment without any.
        self.0.with(|byte| unsafe { *byte })
    }

    fn overwrite(&self) {
        // SAFETY: as above.
        self.0.with_mut(|byte| unsafe { *byte += 1 });
    }
}

impl BufferRecycler for Contents {
    fn recycle(&self, segment: PooledSegment) {
        self.overwrite();
        drop(segment);
    }
}

/// the last of the handles, whoever drops it, gives the segment back, once, and after
/// everybody's last look.
#[test]
fn last_handle_returns_the_segment() {
    loom::model(|| {
        let pool = NetworkBufferPool::new(1, 8, DEFAULT_REQUEST_TIMEOUT).unwrap();
        let segment = pool.request_unpooled_memory_segments(1).unwrap().remove(0);
        let contents = Arc::new(Contents::default());
        let buffer = segment
            .into_buffer(Arc::<Contents>::clone(&contents))
            .into_buffer(DataType::DataBuffer);
        let (second, third) = (buffer.clone(), buffer.clone());
        let reader = {
            let contents = Arc::clone(&contents);
            thread::spawn(move || {
                let copy = second.clone();
                drop(second);
                assert_eq!(contents.read(), 0);
                drop(copy);
            })
        };
        let other = {
            let contents = Arc::clone(&contents);
            thread::spawn(move || {
                assert_eq!(contents.read(), 0);
                drop(third);
            })
        };
        assert_eq!(contents.read(), 0);
        drop(buffer);
        reader.join().unwrap();
        other.join().unwrap();
        assert_eq!(contents.read(), 1);
        assert_eq!(pool.available_segments(), 1);
    });
}

/// The owner of the only handle sees everything that the other handles did.
#[test]
fn only_handle_follows_the_others() {
    loom::model(|| {
        let global = NetworkBufferPool::new(2, 8, DEFAULT_REQUEST_TIMEOUT).unwrap();
        let pool = global
            .create_buffer_pool(LocalPoolOptions::new(1, 1))
            .unwrap();
        let buffer = pool.request_buffer().unwrap().unwrap();
        let mut buffer = buffer.into_buffer(DataType::DataBuffer);
        let contents = Arc::new(Contents::default());
        let reader = {
            let (copy, contents) = (buffer.clone(), Arc::clone(&contents));
            thread::spawn(move || {
                contents.read();
                drop(copy);
            })
        };
        let left = buffer.leave_local_pool();
        if left {
            contents.overwrite();
        }
        reader.join().unwrap();
        // It is idle when the other segment has taken its place.
        assert_eq!(pool.is_available(), left);
        drop(buffer);
        assert!(pool.is_available());
        drop(pool);
        assert_eq!(global.available_segments(), 2);
    });
}
