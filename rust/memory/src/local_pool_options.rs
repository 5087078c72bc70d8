//! Bounds of a local pool, and quotas of its subpartitions.

use crate::error::PoolError;
use crate::slot::NO_CHANNEL;

/// The bounds of a [`LocalBufferPool`](crate::LocalBufferPool).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalPoolOptions {
    /// Segments the pool can always have.
    pub min_segments: usize,
    /// Maximum number of segments, without the overdraft; `usize::MAX` for no limit.
    pub max_segments: usize,
    /// Subpartitions that have a quota; 0 for none.
    pub num_subpartitions: usize,
    /// Buffers of one subpartition at which the pool becomes unavailable.
    pub max_buffers_per_channel: usize,
    /// Segments a request may take beyond the pool's size.
    pub max_overdraft: usize,
}

impl LocalPoolOptions {
    /// Creates the bounds of a pool without quotas and overdraft.
    #[must_use]
    pub const fn new(min_segments: usize, max_segments: usize) -> Self {
        Self {
            min_segments,
            max_segments,
            num_subpartitions: 0,
            max_buffers_per_channel: usize::MAX,
            max_overdraft: 0,
        }
    }

    /// Returns the same with a quota of `max_buffers_per_channel` for each of `num_subpartitions`.
    #[must_use]
    pub const fn with_quota(
        mut self,
        num_subpartitions: usize,
        max_buffers_per_channel: usize,
    ) -> Self {
        self.num_subpartitions = num_subpartitions;
        self.max_buffers_per_channel = max_buffers_per_channel;
        self
    }

    /// Returns the same with an overdraft of `max_overdraft` segments.
    #[must_use]
    pub const fn with_overdraft(mut self, max_overdraft: usize) -> Self {
        self.max_overdraft = max_overdraft;
        self
    }

    pub(crate) fn validate(&self) -> Result<(), PoolError> {
        let refuse = |text: String| Err(PoolError::InvalidArgument(text));
        if self.max_segments < self.min_segments {
            return refuse(format!(
                "the maximum of {} segments is less than the minimum of {}",
                self.max_segments, self.min_segments
            ));
        }
        if self.max_segments == 0 {
            return refuse("a pool needs room for at least one segment".to_owned());
        }
        if self.num_subpartitions > 0 && self.max_buffers_per_channel == 0 {
            return refuse("the buffers per channel must be positive".to_owned());
        }
        if self.num_subpartitions >= NO_CHANNEL as usize {
            return refuse(format!(
                "{} subpartitions are too many",
                self.num_subpartitions
            ));
        }
        Ok(())
    }
}
