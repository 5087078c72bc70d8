//! A map by receiver, whose hash costs one multiplication.
//!
//! Receiver ids are a random prefix and a counter, created by this executor or by one that has
//! proved the token: nobody else can choose them to collide.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::wire::ReceiverId;

/// A map from receivers.
pub(super) type ReceiverMap<T> = HashMap<ReceiverId, T, BuildHasherDefault<ReceiverHasher>>;

/// Folds an id into one word.
#[derive(Default)]
pub(super) struct ReceiverHasher(u64);

impl Hasher for ReceiverHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.write_u64(u64::from_be_bytes(*word));
        }
        for byte in rest {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        // The multiplier is 2^64 divided by the golden ratio (Knuth, The Art of Computer
        // Programming, volume 3, section 6.4).
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write_usize(&mut self, _length: usize) {
        // Every id has the same length.
    }

    fn finish(&self) -> u64 {
        // The map takes its buckets from the low bits, where a product varies least.
        self.0 ^ (self.0 >> 32)
    }
}
