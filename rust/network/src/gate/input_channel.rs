//! A channel of a gate, whether its producer is in this executor or behind a connection.

use penstock_memory::Buffer;

use super::local_channel::LocalInputChannel;
use super::remote_channel::RemoteInputChannel;
use crate::error::Result;
use crate::sync::Arc;

/// A channel of either kind.
#[derive(Debug)]
pub(crate) enum InputChannel {
    /// The producer is in this executor.
    Local(Arc<LocalInputChannel>),
    /// The producer is behind a connection.
    Remote(Arc<RemoteInputChannel>),
}

impl InputChannel {
    pub(super) fn buffers_in_use(&self) -> usize {
        match self {
            Self::Local(channel) => channel.buffers_in_use(),
            Self::Remote(channel) => channel.buffers_in_use(),
        }
    }

    pub(super) fn start_persisting(&self, checkpoint: i64) -> Result<()> {
        match self {
            Self::Local(channel) => channel.start_persisting(checkpoint),
            Self::Remote(channel) => channel.start_persisting(checkpoint),
        }
    }

    pub(super) fn stop_persisting(&self, checkpoint: i64) {
        match self {
            Self::Local(channel) => channel.stop_persisting(checkpoint),
            Self::Remote(channel) => channel.stop_persisting(checkpoint),
        }
    }

    pub(super) fn take_persisted(&self) -> (Vec<Vec<u8>>, bool) {
        match self {
            Self::Local(channel) => channel.take_persisted(),
            Self::Remote(channel) => channel.take_persisted(),
        }
    }

    pub(super) fn has_priority(&self) -> bool {
        match self {
            Self::Local(channel) => channel.has_priority(),
            Self::Remote(channel) => channel.has_priority(),
        }
    }

    pub(super) fn poll(&self) -> Result<Option<Polled>> {
        match self {
            Self::Local(channel) => channel.poll(),
            Self::Remote(channel) => channel.poll(),
        }
    }

    pub(super) fn prioritize_barrier(&self, checkpoint: i64) -> bool {
        match self {
            // Data of the producer is taken from its own queue, where it times out.
            Self::Local(_) => false,
            Self::Remote(channel) => channel.prioritize_barrier(checkpoint),
        }
    }

    pub(super) fn announce_buffer_size(&self, bytes: u32) {
        match self {
            Self::Local(channel) => channel.announce_buffer_size(bytes),
            Self::Remote(channel) => channel.announce_buffer_size(bytes),
        }
    }
}

/// Result of polling a channel.
#[derive(Debug)]
pub(crate) struct Polled {
    pub(crate) buffer: Buffer,
    /// True if the channel has more at present.
    pub(crate) more: bool,
}
