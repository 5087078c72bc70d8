//! Every interleaving of one writer and one reader of a position marker.
//!
//! Run with `cargo test -p penstock-memory --features loom --test loom_position_marker`.

#![cfg(feature = "loom")]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use penstock_memory::position_marker::{Position, PositionMarker};

struct Shared {
    marker: PositionMarker,
    /// loom fails the model when a read and a write of one cell are not ordered.
    bytes: [UnsafeCell<u8>; 3],
}

/// bytes below the observed position are visible, and positions only grow.
#[test]
fn published_bytes_are_visible() {
    loom::model(|| {
        let shared = Arc::new(Shared {
            marker: PositionMarker::new(),
            bytes: [UnsafeCell::new(0), UnsafeCell::new(0), UnsafeCell::new(0)],
        });
        let writer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                for (index, cell) in (0_u8..).zip(&shared.bytes) {
                    // SAFETY: the reader looks at a byte only after it was published.
                    cell.with_mut(|byte| unsafe { *byte = index + 1 });
                    if index != 1 {
                        shared.marker.publish(Position::open(u32::from(index) + 1));
                    }
                }
                shared.marker.publish(Position::finished(3));
            })
        };
        let mut seen = 0;
        for _ in 0..2 {
            let position = shared.marker.observe();
            assert!(position.bytes() >= seen);
            seen = position.bytes();
            for (index, cell) in (0_u8..).zip(&shared.bytes).take(seen as usize) {
                // SAFETY: the byte is below the published position.
                assert_eq!(cell.with(|byte| unsafe { *byte }), index + 1);
            }
        }
        writer.join().unwrap();
        assert_eq!(shared.marker.observe(), Position::finished(3));
    });
}
