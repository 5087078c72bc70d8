//! Number of buffers that may wait for a reader: at most the number it reads in a second.
//!
//! A fast reader has the whole quota.  Buffers that wait for a slow one delay checkpoint barriers,
//! without any gain: two buffers keep a reader busy that needs half a second for each.
//!
//! Pure arithmetic: the caller counts full buffers and provides the time.

use std::time::{Duration, Instant};

/// Buffers of one subpartition at which a partition counts as unavailable.
pub(crate) const MAX_BUFFERS_PER_CHANNEL: usize = 10;
/// The minimum: one buffer being read and one being written.
const MIN_BUFFERS_PER_CHANNEL: usize = 2;
/// Time within which a reader should read the buffers that wait for it.
const TARGET: Duration = Duration::from_secs(1);

/// Tracks the pace of one reader.
#[derive(Debug)]
pub(super) struct ReaderPace {
    /// Start of the measurement, if it has begun.
    since: Option<Instant>,
    /// Full buffers taken since then.
    taken: usize,
    quota: usize,
    /// True if the quota has changed since it was last requested.
    changed: bool,
}

impl ReaderPace {
    pub(super) fn new() -> Self {
        Self {
            since: None,
            taken: 0,
            quota: MAX_BUFFERS_PER_CHANNEL,
            changed: false,
        }
    }

    /// Notes that the reader has taken a full buffer.
    pub(super) fn on_taken(&mut self, now: Instant) {
        let Some(since) = self.since else {
            self.since = Some(now);
            self.taken = 0;
            return;
        };
        self.taken += 1;
        let elapsed = now.saturating_duration_since(since);
        if elapsed < TARGET && self.taken < MAX_BUFFERS_PER_CHANNEL {
            return;
        }
        let within_target = (TARGET.as_micros() * self.taken as u128)
            .div_ceil(elapsed.as_micros().max(1))
            .min(MAX_BUFFERS_PER_CHANNEL as u128) as usize;
        self.since = Some(now);
        self.taken = 0;
        let quota = within_target.max(MIN_BUFFERS_PER_CHANNEL);
        self.changed |= quota != self.quota;
        self.quota = quota;
    }

    /// Returns the quota, if it has changed since the last call.
    pub(super) fn take_change(&mut self) -> Option<usize> {
        std::mem::take(&mut self.changed).then_some(self.quota)
    }

    /// Restarts the measurement: the time since the last buffer was not the reader's own.
    pub(super) fn restart(&mut self) {
        self.since = None;
    }

    /// Returns whether fewer buffers may wait than for a fast reader.
    pub(super) fn is_slow(&self) -> bool {
        self.quota < MAX_BUFFERS_PER_CHANNEL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes `count` buffers, one every `interval_ms` from `now` on; the last change of the quota.
    fn take(
        pace: &mut ReaderPace,
        now: &mut Instant,
        count: usize,
        interval_ms: u64,
    ) -> Option<usize> {
        let mut changed = None;
        for _ in 0..count {
            *now += Duration::from_millis(interval_ms);
            pace.on_taken(*now);
            changed = pace.take_change().or(changed);
        }
        changed
    }

    /// Interval of buffers in milliseconds → what a second holds of them, within the bounds.
    #[test]
    fn quota_is_what_a_second_holds() {
        for (interval_ms, quota) in [
            (0, None),
            (100, None),
            (112, Some(9)),
            (350, Some(3)),
            (500, Some(2)),
            (5000, Some(2)),
        ] {
            let (mut pace, mut now) = (ReaderPace::new(), Instant::now());
            assert_eq!(
                take(&mut pace, &mut now, 20, interval_ms),
                quota,
                "{interval_ms}"
            );
            assert_eq!(pace.is_slow(), quota.is_some());
        }
    }

    /// Less than a second and less than ten buffers prove nothing.
    #[test]
    fn short_measurements_change_nothing() {
        let (mut pace, mut now) = (ReaderPace::new(), Instant::now());
        assert_eq!(take(&mut pace, &mut now, 3, 333), None);
    }

    /// A reader that has become quick has the whole quota again after ten buffers.
    #[test]
    fn quick_reader_is_trusted_again() {
        let (mut pace, mut now) = (ReaderPace::new(), Instant::now());
        assert_eq!(take(&mut pace, &mut now, 3, 700), Some(2));
        assert_eq!(take(&mut pace, &mut now, 9, 1), None);
        let whole = Some(MAX_BUFFERS_PER_CHANNEL);
        assert_eq!(take(&mut pace, &mut now, 1, 1), whole);
    }

    /// Time in which nothing could be taken does not count.
    #[test]
    fn blocked_time_does_not_count() {
        let (mut pace, mut now) = (ReaderPace::new(), Instant::now());
        take(&mut pace, &mut now, 1, 0);
        pace.restart();
        assert_eq!(take(&mut pace, &mut now, 1, 60_000), None);
        assert_eq!(take(&mut pace, &mut now, 10, 1), None);
    }
}
