//! Counts of what a gate has read.

use crate::sync::{AtomicU64, Ordering};

/// Bytes and buffers read, including events, by the location of their producers.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Bytes of producers in this executor.
    pub local_bytes: u64,
    /// Buffers of producers in this executor.
    pub local_buffers: u64,
    /// Bytes received over connections.
    pub remote_bytes: u64,
    /// Buffers received over connections.
    pub remote_buffers: u64,
}

impl std::ops::Add for Received {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            local_bytes: self.local_bytes + other.local_bytes,
            local_buffers: self.local_buffers + other.local_buffers,
            remote_bytes: self.remote_bytes + other.remote_bytes,
            remote_buffers: self.remote_buffers + other.remote_buffers,
        }
    }
}

/// Counters of `Received`: the reading thread adds, any thread reads.
#[derive(Debug, Default)]
pub(super) struct Counts {
    bytes: [AtomicU64; 2],
    buffers: [AtomicU64; 2],
}

impl Counts {
    pub(super) fn add(&self, is_remote: bool, bytes: usize) {
        let index = usize::from(is_remote);
        self.bytes[index].fetch_add(bytes as u64, Ordering::Relaxed);
        self.buffers[index].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn received(&self) -> Received {
        let [local_bytes, remote_bytes] = &self.bytes;
        let [local_buffers, remote_buffers] = &self.buffers;
        Received {
            local_bytes: local_bytes.load(Ordering::Relaxed),
            local_buffers: local_buffers.load(Ordering::Relaxed),
            remote_bytes: remote_bytes.load(Ordering::Relaxed),
            remote_buffers: remote_buffers.load(Ordering::Relaxed),
        }
    }
}
